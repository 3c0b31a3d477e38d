use std::sync::Arc;

use bytes::Bytes;

use super::{
    AnthropicParser, OpenAiParser, ParseError, ParsedBody, Parser, PassthroughParser, VertexAiParser,
    VllmGrpcParser, VllmHttpParser,
};
use crate::headers::Headers;
use crate::plugin::{Factory, Instance, Roles};

/// The parser types that are built, each with its factory.
pub const TYPES: &[(&str, Factory)] = &[
    (OpenAiParser::TYPE, |name, _, _| Ok(instance(name, OpenAiParser))),
    (AnthropicParser::TYPE, |name, _, _| Ok(instance(name, AnthropicParser))),
    (VllmHttpParser::TYPE, |name, _, _| Ok(instance(name, VllmHttpParser))),
    (VllmGrpcParser::TYPE, |name, _, _| Ok(instance(name, VllmGrpcParser))),
    (VertexAiParser::TYPE, |name, _, _| Ok(instance(name, VertexAiParser))),
    (PassthroughParser::TYPE, |name, _, _| Ok(instance(name, PassthroughParser))),
];

/// Returns the instance of a parser; no parser takes parameters, and any are ignored.
fn instance(name: &str, parser: impl Parser + 'static) -> Instance {
    let plugin_type = parser.plugin_type();
    Instance::new(plugin_type, name, Roles { parser: Some(Arc::new(parser)), ..Roles::default() })
}

/// The parsers of a configuration, in order of precedence (request-control spec 13.1).
///
/// `Send` and cheap to clone: every thread that reads bodies has one.
#[derive(Clone, Debug)]
pub struct ParserRegistry {
    parsers: Arc<[Arc<dyn Parser>]>,
}

impl Default for ParserRegistry {
    /// Returns the registry of a configuration that names no parser.
    fn default() -> Self {
        Self::new([
            Arc::new(OpenAiParser) as Arc<dyn Parser>,
            Arc::new(AnthropicParser),
            Arc::new(VllmHttpParser),
        ])
    }
}

impl ParserRegistry {
    /// Returns a registry of `parsers`; a second one of a type and all behind a fallback are left out, and an
    /// empty list is that of [`ParserRegistry::default`].
    pub fn new(parsers: impl IntoIterator<Item = Arc<dyn Parser>>) -> Self {
        let mut kept: Vec<Arc<dyn Parser>> = Vec::new();
        for parser in parsers {
            let plugin_type = parser.plugin_type();
            if kept.last().is_some_and(|last| last.claims().is_empty()) {
                tracing::warn!(plugin_type, "the parser stands behind a fallback and is never asked");
            } else if kept.iter().any(|k| k.plugin_type() == plugin_type) {
                tracing::warn!(plugin_type, "the parser is configured twice; the first one counts");
            } else {
                kept.push(parser);
            }
        }
        if kept.is_empty() { Self::default() } else { ParserRegistry { parsers: kept.into() } }
    }

    /// Returns the parsers in order.
    pub fn parsers(&self) -> &[Arc<dyn Parser>] {
        &self.parsers
    }

    /// Returns the parser of a request, for its body and its response.
    ///
    /// # Errors
    /// A path that no parser claims, where there is no fallback.
    pub fn resolve(&self, headers: &Headers) -> Result<&Arc<dyn Parser>, ParseError> {
        let path = request_path(headers);
        self.parsers
            .iter()
            .find(|p| p.claims().iter().any(|suffix| path_ends_with(path, suffix)))
            .or_else(|| self.parsers.last().filter(|last| last.claims().is_empty()))
            .ok_or_else(|| ParseError(format!("no parser registered matching path suffix for: {path}")))
    }

    /// Resolves the parser of a request and reads the body with it.
    ///
    /// # Errors
    /// Those of [`ParserRegistry::resolve`] and of the parser.
    pub fn parse(
        &self,
        headers: &Headers,
        body: Bytes,
    ) -> Result<(ParsedBody, &Arc<dyn Parser>), ParseError> {
        let parser = self.resolve(headers)?;
        Ok((parser.parse_request(headers, body)?, parser))
    }
}

/// Returns the path of a request without its query: the first non-empty of `:path`, `x-original-path` and
/// `x-forwarded-path`, else `/v1/completions`.
pub fn request_path(headers: &Headers) -> &str {
    let path = [":path", "x-original-path", "x-forwarded-path"]
        .iter()
        .find_map(|name| headers.get(name).filter(|path| !path.is_empty()))
        .unwrap_or("/v1/completions");
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// Returns whether `path` ends with `suffix`: spaces and one trailing slash of the path do not count, and there
/// is no boundary check (`/foochat/completions` ends with `chat/completions`).
pub(super) fn path_ends_with(path: &str, suffix: &str) -> bool {
    let path = path.trim();
    path.strip_suffix('/').unwrap_or(path).ends_with(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(path: &str) -> Option<&'static str> {
        let headers: Headers = [(":path", path)].into_iter().collect();
        ParserRegistry::default().resolve(&headers).ok().map(|p| p.plugin_type())
    }

    #[test]
    fn paths_find_their_parser() {
        for (path, parser) in [
            ("/v1/completions", Some("openai-parser")),
            ("/v1/chat/completions/?x=1", Some("openai-parser")),
            ("/foochat/completions", Some("openai-parser")),
            ("/v1/messages/count_tokens", Some("anthropic-parser")),
            ("/inference/v1/generate", Some("vllmhttp-parser")),
            ("/v1/models", None),
            ("", Some("openai-parser")),
        ] {
            assert_eq!(resolved(path), parser, "{path}");
        }
    }

    #[test]
    fn a_fallback_ends_the_list() {
        let registry =
            ParserRegistry::new([Arc::new(PassthroughParser) as Arc<dyn Parser>, Arc::new(OpenAiParser)]);
        assert_eq!(registry.parsers().len(), 1);
        let headers: Headers = [(":path", "/v1/models")].into_iter().collect();
        assert_eq!(registry.resolve(&headers).expect("a fallback").plugin_type(), "passthrough-parser");
    }
}
