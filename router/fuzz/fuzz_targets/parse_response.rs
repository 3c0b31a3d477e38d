//! Every parser's reading of usage, of bodies and of streams: the first byte chooses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use router::headers::Headers;
use router::request::{
    AnthropicParser, OpenAiParser, Parser, PassthroughParser, VertexAiParser, VllmGrpcParser, VllmHttpParser,
};

const PARSERS: [&dyn Parser; 6] =
    [&OpenAiParser, &AnthropicParser, &VllmHttpParser, &VllmGrpcParser, &VertexAiParser, &PassthroughParser];

const CONTENT_TYPES: [&str; 3] = ["application/json", "text/event-stream; charset=utf-8", "application/grpc"];

fuzz_target!(|input: &[u8]| {
    let Some((choice, chunk)) = input.split_first() else { return };
    let choice = usize::from(*choice);
    let content_type = CONTENT_TYPES[choice / PARSERS.len() % CONTENT_TYPES.len()];
    let headers: Headers = [("content-type", content_type)].into_iter().collect();
    let parser = PARSERS[choice % PARSERS.len()];
    let whole = parser.parse_response(&headers, chunk);
    assert_eq!(whole, parser.parse_response(&headers, chunk), "a chunk says the same each time");
    if content_type.starts_with("text/event-stream") && choice % PARSERS.len() < 3 {
        assert!(whole.is_ok(), "a stream is never refused");
        // Comments and blank lines say nothing.
        let commented = [b": comment\r\n\r\n", chunk].concat();
        assert_eq!(parser.parse_response(&headers, &commented), whole);
    }
});
