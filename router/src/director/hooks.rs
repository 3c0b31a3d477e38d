use std::rc::Rc;

use crate::plugin::{Instance, TypedName};
use crate::request_control::{
    Admitter, DataProducer, PreRequest, RequestHeaderProcessor, ResponseBodyProcessor,
    ResponseHeaderProcessor, Screener,
};

/// A plugin in the list of a hook.
pub(super) struct Hook<P: ?Sized> {
    pub(super) id: TypedName,
    pub(super) plugin: Rc<P>,
}

/// The plugins of each hook, in the order in which they are called.
#[derive(Default)]
pub struct Hooks {
    pub(super) request_header: Vec<Hook<dyn RequestHeaderProcessor>>,
    pub(super) screeners: Vec<Hook<dyn Screener>>,
    pub(super) producers: Vec<Hook<dyn DataProducer>>,
    pub(super) admitters: Vec<Hook<dyn Admitter>>,
    pub(super) pre_request: Vec<Hook<dyn PreRequest>>,
    pub(super) response_header: Vec<Hook<dyn ResponseHeaderProcessor>>,
    pub(super) response_body: Vec<Hook<dyn ResponseBodyProcessor>>,
}

impl Hooks {
    /// Enters every plugin into the lists of its roles.
    ///
    /// `instances` are in order of configuration, created ones last (request-control spec 6.1); `producers`
    /// are the data producers in order of dependency (6.2), which no other list follows.
    pub fn new(instances: &[Instance], producers: &[Instance]) -> Self {
        let mut hooks = Hooks::default();
        for Instance { id, roles, .. } in instances {
            enter(&mut hooks.request_header, id, &roles.request_header);
            enter(&mut hooks.screeners, id, &roles.screener);
            enter(&mut hooks.admitters, id, &roles.admitter);
            enter(&mut hooks.pre_request, id, &roles.pre_request);
            enter(&mut hooks.response_header, id, &roles.response_header);
            enter(&mut hooks.response_body, id, &roles.response_body);
        }
        for Instance { id, roles, .. } in producers {
            enter(&mut hooks.producers, id, &roles.producer);
        }
        hooks
    }

    /// Returns whether a plugin looks at the heads of responses.
    pub fn watch_heads(&self) -> bool {
        !self.response_header.is_empty()
    }

    /// Returns whether a plugin looks at chunks of a response between the first and the last.
    pub fn watch_chunks(&self) -> bool {
        self.response_body.iter().any(|hook| hook.plugin.watches_every_chunk())
    }
}

fn enter<P: ?Sized>(list: &mut Vec<Hook<P>>, id: &TypedName, role: &Option<Rc<P>>) {
    if let Some(plugin) = role {
        list.push(Hook { id: id.clone(), plugin: Rc::clone(plugin) });
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn names<P: ?Sized>(list: &[Hook<P>]) -> Vec<String> {
            list.iter().map(|hook| hook.id.to_string()).collect()
        }
        f.debug_struct("Hooks")
            .field("request_header", &names(&self.request_header))
            .field("screeners", &names(&self.screeners))
            .field("producers", &names(&self.producers))
            .field("admitters", &names(&self.admitters))
            .field("pre_request", &names(&self.pre_request))
            .field("response_header", &names(&self.response_header))
            .field("response_body", &names(&self.response_body))
            .finish()
    }
}
