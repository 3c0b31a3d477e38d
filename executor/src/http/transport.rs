use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use http::{Request, Response};

use super::{Body, Endpoint, SendError};
use crate::{real, sim};

/// Sends requests to endpoints, see [`Rt::http`](crate::Rt::http). Cheap to clone.
#[derive(Clone)]
pub struct Transport(Inner);

#[derive(Clone)]
enum Inner {
    Real(Arc<real::Core>),
    Sim(sim::Id),
}

impl Transport {
    pub(crate) fn real(core: Arc<real::Core>) -> Self {
        Transport(Inner::Real(core))
    }

    pub(crate) fn sim(id: sim::Id) -> Self {
        Transport(Inner::Sim(id))
    }

    /// Sends `request` and returns the head of the response, its body still to be read.
    ///
    /// The endpoint says where to connect; of the request's URI only path and query are used. A `host` header
    /// is added if there is none. On tokio this is HTTP/1.1 over pooled connections. Under the simulation it
    /// is a call of the service that listens at the endpoint, as a task of its own; extensions of request and
    /// response pass through untouched, so that both sides of one process can exchange typed values.
    ///
    /// # Errors
    /// [`SendError`]; an answer with an error status is a response.
    ///
    /// # Cancel safety
    /// Dropping this future, or the response's body before its end, aborts the exchange: the server sees its
    /// connection closed.
    #[track_caller]
    pub fn send(
        &self,
        to: &Endpoint,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Body>, SendError>> + Send + use<> {
        let (this, to, place) = (self.0.clone(), to.clone(), Location::caller());
        async move {
            match this {
                Inner::Real(core) => core.client().send(&to, request).await,
                Inner::Sim(id) => sim::send(id, to, request, place).await,
            }
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Real(_) => f.write_str("Transport(Real)"),
            Inner::Sim(_) => f.write_str("Transport(Sim)"),
        }
    }
}
