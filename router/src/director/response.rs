use std::rc::Rc;

use super::hooks::Hooks;
use crate::endpoint::EndpointMetadata;
use crate::flow_control::eviction::RequestEvictor;
use crate::headers::Headers;
use crate::request::InferenceRequest;
use crate::request_control::{Metadata, ResponseRecord, Usage};

/// Follows one response and calls its hooks (request-control spec 2.6).
///
/// Dropped before [`end`](Self::end), it runs the hooks of the end by itself if the request had a target: a
/// client that disconnects, a plugin that fails after the decision and a response that needs no processing
/// give back what the request held, exactly once.
#[derive(Debug)]
pub struct ResponseTracker {
    hooks: Rc<Hooks>,
    pub(super) request: Option<InferenceRequest>,
    target: Option<Rc<EndpointMetadata>>,
    record: ResponseRecord,
    begun: bool,
    ended: bool,
    /// Where the request can be evicted, until its end.
    pub(super) evictable: Option<Evictable>,
}

/// A request that an evictor follows; dropped, it is followed no more.
#[derive(Debug)]
pub(super) struct Evictable {
    evictor: Rc<RequestEvictor>,
    id: Rc<str>,
}

impl Evictable {
    pub(super) fn new(evictor: Rc<RequestEvictor>, id: &str) -> Self {
        Evictable { evictor, id: id.into() }
    }
}

impl Drop for Evictable {
    fn drop(&mut self) {
        self.evictor.ended(&self.id);
    }
}

impl ResponseTracker {
    pub(super) fn new(
        hooks: Rc<Hooks>,
        request: Option<InferenceRequest>,
        target: Option<Rc<EndpointMetadata>>,
        request_id: String,
    ) -> Self {
        let record = ResponseRecord { request_id, ..ResponseRecord::default() };
        ResponseTracker { hooks, request, target, record, begun: false, ended: false, evictable: None }
    }

    /// Returns the request, `None` for one that the director never saw.
    pub fn request(&self) -> Option<&InferenceRequest> {
        self.request.as_ref()
    }

    /// Returns the endpoint that was chosen, `None` for a request that the director never saw.
    pub fn target(&self) -> Option<&Rc<EndpointMetadata>> {
        self.target.as_ref()
    }

    /// Takes the head of the response and returns the headers as the plugins leave them; those that the router
    /// owns are not for the client.
    pub fn head(&mut self, headers: Headers, metadata: Metadata) -> &Headers {
        self.record.headers = headers;
        self.record.metadata = metadata;
        for hook in &self.hooks.response_header {
            hook.plugin.response_header(self.request.as_ref(), &mut self.record, self.target.as_ref());
        }
        &self.record.headers
    }

    /// Takes a chunk of the body that is not the last, with the usage that it reported.
    pub fn chunk(&mut self, usage: Option<Usage>) {
        if !self.ended {
            self.body(usage, false);
        }
    }

    /// Takes the end of the body, with the usage that the last chunk reported, and returns the metadata that
    /// plugins want attached to it.
    pub fn end(mut self, usage: Option<Usage>) -> Metadata {
        self.body(usage, true);
        self.ended = true;
        std::mem::take(&mut self.record.dynamic_metadata)
    }

    fn body(&mut self, usage: Option<Usage>, end: bool) {
        if let Some(usage) = usage {
            self.record.usage = usage;
        }
        self.record.start_of_stream = !std::mem::replace(&mut self.begun, true);
        self.record.end_of_stream = end;
        for hook in &self.hooks.response_body {
            hook.plugin.response_body(self.request.as_ref(), &mut self.record, self.target.as_ref());
        }
        if end {
            self.evictable = None;
        }
    }
}

impl Drop for ResponseTracker {
    fn drop(&mut self) {
        if !self.ended && self.target.is_some() {
            self.body(None, true);
        }
    }
}
