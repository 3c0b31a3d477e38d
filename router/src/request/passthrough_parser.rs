use bytes::Bytes;

use super::{ParseError, ParsedBody, Parser, Payload};
use crate::headers::Headers;
use crate::request_control::Usage;

/// `passthrough-parser`: every body is opaque (request-control spec 13.9).
///
/// It claims no path, so it is the fallback of a registry: no model, no prompt, no usage.
#[derive(Clone, Copy, Debug)]
pub struct PassthroughParser;

impl PassthroughParser {
    /// The plugin type.
    pub const TYPE: &str = "passthrough-parser";
}

impl Parser for PassthroughParser {
    fn plugin_type(&self) -> &'static str {
        Self::TYPE
    }

    fn claims(&self) -> &'static [&'static str] {
        &[]
    }

    fn protocols(&self) -> &'static [&'static str] {
        &[]
    }

    fn rewrites_model(&self) -> bool {
        false
    }

    fn parse_request(&self, _headers: &Headers, body: Bytes) -> Result<ParsedBody, ParseError> {
        Ok(ParsedBody { payload: Payload::Raw(body), ..ParsedBody::default() })
    }

    fn parse_response(&self, _headers: &Headers, _chunk: &[u8]) -> Result<Option<Usage>, ParseError> {
        Ok(None)
    }
}
