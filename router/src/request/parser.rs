use bytes::Bytes;

use super::ParsedBody;
use crate::headers::Headers;
use crate::request_control::Usage;

/// Why a body was refused; the text reaches the client with status 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub String);

impl ParseError {
    /// Returns an error that says `text`.
    pub fn new(text: impl Into<String>) -> Self {
        ParseError(text.into())
    }
}

/// Reads the bodies of one family of APIs (request-control spec 13).
///
/// Pure, and shared by the threads that read bodies.
pub trait Parser: Send + Sync + std::fmt::Debug {
    /// Returns the plugin type.
    fn plugin_type(&self) -> &'static str;

    /// Returns the path suffixes that the parser claims; none = it is the fallback for every path.
    fn claims(&self) -> &'static [&'static str];

    /// Returns the application protocols that it speaks; none = any.
    fn protocols(&self) -> &'static [&'static str];

    /// Returns whether a model name can be written into its payloads.
    fn rewrites_model(&self) -> bool;

    /// Reads a whole request body.
    ///
    /// # Errors
    /// A body that is not a request of the API that `headers` name.
    fn parse_request(&self, headers: &Headers, body: Bytes) -> Result<ParsedBody, ParseError>;

    /// Reads the token usage from a chunk of a response (or from all of it), `None` where it has none.
    ///
    /// Names in `headers` are compared without regard to case. The result replaces what earlier chunks said.
    ///
    /// # Errors
    /// A chunk that is not what the response's content type says; it never fails the response.
    fn parse_response(&self, headers: &Headers, chunk: &[u8]) -> Result<Option<Usage>, ParseError>;
}
