//! Outbound HTTP: one request to one endpoint, one response.

mod body;
mod endpoint;
mod error;
mod transport;

pub use body::{Body, BoxedBody};
pub use endpoint::{Endpoint, ParseEndpointError};
pub use error::SendError;
pub use transport::Transport;

pub(crate) use error::Kind;
