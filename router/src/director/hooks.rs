use std::rc::Rc;

use crate::plugin::{Hook, Instance, TypedName};
use crate::request_control::{
    Admitter, DataProducer, PreRequest, RequestHeaderProcessor, ResponseBodyProcessor,
    ResponseHeaderProcessor, Screener,
};

/// The plugins of each hook, in the order in which they are called. A plugin takes part merely by being configured,
/// referred to or not.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// See requests before admission.
    pub request_header: Vec<Hook<dyn RequestHeaderProcessor>>,
    /// Narrow the candidates.
    pub screeners: Vec<Hook<dyn Screener>>,
    /// Find things out, in the order in which they must run.
    pub producers: Vec<Hook<dyn DataProducer>>,
    /// Let requests pass.
    pub admitters: Vec<Hook<dyn Admitter>>,
    /// Act before forwarding.
    pub pre_request: Vec<Hook<dyn PreRequest>>,
    /// See response headers.
    pub response_header: Vec<Hook<dyn ResponseHeaderProcessor>>,
    /// See response bodies.
    pub response_body: Vec<Hook<dyn ResponseBodyProcessor>>,
}

impl Hooks {
    /// Enters every plugin into the lists of its roles.
    ///
    /// `instances` are in order of configuration, created ones last (request-control spec 6.1); `producers`
    /// are the data producers in order of dependency (6.2), which no other list follows.
    pub fn new<'a>(
        instances: impl IntoIterator<Item = &'a Instance>,
        producers: impl IntoIterator<Item = &'a Instance>,
    ) -> Self {
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
