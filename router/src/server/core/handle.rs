//! How others talk to the core, from any thread.

use std::fmt;

use executor::Rt;
use executor::http::Endpoint;
use executor::sync::{mpsc, oneshot, watch};

use super::{Command, Rerouted, Route};
use crate::data_layer::silence::SilentAddresses;
use crate::director::RequestInput;
use crate::error::{ErrorCode, InferenceError};
use crate::headers::Headers;
use crate::request_control::Usage;

/// Talks to the core. Cheap to clone, works on any thread.
#[derive(Clone)]
pub struct CoreHandle {
    pub(super) rt: Rt,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) silent: watch::Receiver<SilentAddresses>,
    pub(super) watches_heads: bool,
    pub(super) watches_chunks: bool,
}

impl CoreHandle {
    /// Decides where a request goes. Dropping the future withdraws the request.
    pub(crate) async fn route(&self, input: RequestInput) -> Result<Route, InferenceError> {
        let (reply, route) = self.rt.oneshot();
        self.ask(Command::Route { input: Box::new(input), reply }, route).await?
    }

    /// Picks an endpoint for a request without a body.
    pub(crate) async fn route_bodyless(&self, headers: Headers) -> Result<Route, InferenceError> {
        let (reply, route) = self.rt.oneshot();
        self.ask(Command::Bodyless { headers, reply }, route).await?
    }

    /// Runs the hooks of a response's head and returns the headers as they leave them; `None` where no plugin
    /// looks at heads.
    pub(crate) async fn head(&self, ticket: &Ticket, headers: impl FnOnce() -> Headers) -> Option<Headers> {
        if !self.watches_heads {
            return None;
        }
        let (reply, answer) = self.rt.oneshot();
        self.ask(Command::Head { key: ticket.key, headers: headers(), reply }, answer).await.ok()
    }

    /// Returns whether a plugin looks at chunks between the first and the last.
    pub(crate) fn watches_chunks(&self) -> bool {
        self.watches_chunks
    }

    /// Reports that a request is routed anew. An endpoint that refuses connections is left out for a while.
    pub(crate) fn rerouted(&self, endpoint: &Endpoint, why: Rerouted) {
        drop(self.commands.send(Command::Rerouted { endpoint: endpoint.clone(), why }));
    }

    /// Waits until `endpoint`, which answers polls or has never done so, falls silent.
    pub(crate) async fn falls_silent(&self, endpoint: &Endpoint) {
        let address = endpoint.to_string();
        let mut silent = self.silent.clone();
        if !silent.with(|silent| silent.contains(&address)) {
            while silent.changed().await.is_ok() {
                if silent.with(|silent| silent.contains(&address)) {
                    return;
                }
            }
        }
        // Nobody better is known, or the core is gone: what waits for the response goes on waiting.
        std::future::pending().await
    }

    /// Returns the reason of the latest decision about a request as JSON; `None` where it is not known, or the core
    /// is gone.
    pub async fn explanation(&self, request_id: &str) -> Option<String> {
        let (reply, found) = self.rt.oneshot();
        self.ask(Command::Explain { request_id: request_id.to_owned(), reply }, found).await.ok()?
    }

    /// Returns how many endpoints there are, `None` when the core is gone.
    pub async fn endpoints(&self) -> Option<usize> {
        let (reply, count) = self.rt.oneshot();
        self.ask(Command::Ready { reply }, count).await.ok()
    }

    /// Returns the page of the router's metrics, `None` when the core is gone.
    pub async fn metrics(&self) -> Option<String> {
        let (reply, text) = self.rt.oneshot();
        self.ask(Command::Metrics { reply }, text).await.ok()
    }

    async fn ask<T>(&self, command: Command, answer: oneshot::Receiver<T>) -> Result<T, InferenceError> {
        let gone = || InferenceError::new(ErrorCode::ServiceUnavailable, "the router is shutting down");
        self.commands.send(command).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

impl fmt::Debug for CoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreHandle").finish_non_exhaustive()
    }
}

/// A response that the core follows. Dropped unended it tells the core that the response broke off.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) key: usize,
    /// `None` once the end was told.
    pub(super) commands: Option<mpsc::UnboundedSender<Command>>,
}

impl Ticket {
    /// Tells of a chunk that is not the last.
    pub(crate) fn chunk(&self, usage: Option<Usage>) {
        if let Some(commands) = &self.commands {
            drop(commands.send(Command::Chunk { key: self.key, usage }));
        }
    }

    /// Tells of the end.
    pub(crate) fn end(mut self, usage: Option<Usage>) {
        self.close(usage, true);
    }

    fn close(&mut self, usage: Option<Usage>, seen: bool) {
        if let Some(commands) = self.commands.take() {
            // A core that is gone has dropped its trackers.
            drop(commands.send(Command::End { key: self.key, usage, seen }));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.close(None, false);
    }
}
