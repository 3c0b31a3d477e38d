//! Outbound HTTP: one request to one endpoint, one response.

mod body;
mod endpoint;
mod error;
mod received;
mod transport;

pub use body::{Body, BoxedBody};
pub use endpoint::{Endpoint, ParseEndpointError};
pub use error::SendError;
pub use transport::Transport;

pub(crate) use error::Kind;
pub(crate) use received::{Received, classify};

use std::time::Duration;

/// How long an idle connection is kept. Below the 75 s after which common servers close it themselves.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// How long a client hears nothing from a server before it asks whether it is still there.
pub(crate) const PROBE_AFTER: Duration = Duration::from_secs(30);

/// How long a client waits for a server that does not even acknowledge: then the connection is lost.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(60);

/// How long a client may take to send its request's head.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
