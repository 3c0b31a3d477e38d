use std::error::Error;
use std::fmt;

use super::Endpoint;

/// Why an exchange failed, or the body of one.
pub struct SendError {
    kind: Kind,
    endpoint: Option<Endpoint>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Refused,
    Reset,
    ConnectTimeout,
    Connect,
    Closed,
    Protocol,
    Body,
}

impl SendError {
    pub(crate) fn new(kind: Kind) -> Self {
        SendError { kind, endpoint: None, source: None }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn at(mut self, endpoint: &Endpoint) -> Self {
        self.endpoint = Some(endpoint.clone());
        self
    }

    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the error of a connection that nobody accepted: what a simulated server gives when it is down.
    pub fn refused() -> Self {
        Self::new(Kind::Refused)
    }

    /// Returns the error of a connection that the peer broke off.
    pub fn reset() -> Self {
        Self::new(Kind::Reset)
    }

    /// Returns the error of a connection that could not be opened in time.
    pub fn connect_timeout() -> Self {
        Self::new(Kind::ConnectTimeout)
    }

    /// Returns the error of a connection that ended before the message did.
    pub fn closed() -> Self {
        Self::new(Kind::Closed)
    }

    /// Returns the error of a message that is no HTTP.
    pub fn protocol(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Kind::Protocol).because(source)
    }

    /// Returns the error of a body whose producer failed: the exchange ends with it.
    pub fn body(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Kind::Body).because(source)
    }

    /// Returns whether nobody listened at the endpoint.
    pub fn is_refused(&self) -> bool {
        self.kind == Kind::Refused
    }

    /// Returns whether the peer broke the connection off.
    pub fn is_reset(&self) -> bool {
        self.kind == Kind::Reset
    }

    /// Returns whether the connection could not be opened in time.
    pub fn is_connect_timeout(&self) -> bool {
        self.kind == Kind::ConnectTimeout
    }

    /// Returns whether no connection was made, for whatever reason: the request was not sent.
    pub fn is_connect(&self) -> bool {
        matches!(self.kind, Kind::Refused | Kind::ConnectTimeout | Kind::Connect)
    }

    /// Returns whether the connection ended before the message did.
    pub fn is_closed(&self) -> bool {
        self.kind == Kind::Closed
    }

    /// Returns whether the peer sent what is no HTTP.
    pub fn is_protocol(&self) -> bool {
        self.kind == Kind::Protocol
    }

    /// Returns whether the producer of a body failed.
    pub fn is_body(&self) -> bool {
        self.kind == Kind::Body
    }

    /// Returns the endpoint the exchange was with, where it is known.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Refused => "connection refused",
            Kind::Reset => "connection reset by peer",
            Kind::ConnectTimeout => "connecting timed out",
            Kind::Connect => "connecting failed",
            Kind::Closed => "connection closed before the message was complete",
            Kind::Protocol => "the peer broke the HTTP protocol",
            Kind::Body => "the producer of the body failed",
        })?;
        match &self.endpoint {
            Some(endpoint) => write!(f, " ({endpoint})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError")
            .field("kind", &self.kind)
            .field("endpoint", &self.endpoint)
            .field("source", &self.source)
            .finish()
    }
}

impl Error for SendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
