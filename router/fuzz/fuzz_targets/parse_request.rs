//! Every parser over any body: the first byte chooses parser and path.
//!
//! What is accepted can be read, estimated, written, and read again as the same.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use router::headers::Headers;
use router::producers::token_producer::{Estimate, EstimateParameters};
use router::request::{
    AnthropicParser, OpenAiParser, Parser, PassthroughParser, Payload, VertexAiParser, VllmGrpcParser, VllmHttpParser,
    json,
};

const PARSERS: [&dyn Parser; 6] =
    [&OpenAiParser, &AnthropicParser, &VllmHttpParser, &VllmGrpcParser, &VertexAiParser, &PassthroughParser];

fuzz_target!(|input: &[u8]| {
    let Some((choice, body)) = input.split_first() else { return };
    let choice = usize::from(*choice);
    let parser = PARSERS[choice % PARSERS.len()];
    let claims = parser.claims();
    let path = claims.get(choice / PARSERS.len() % claims.len().max(1)).copied().unwrap_or("v1/completions");
    let headers: Headers = [(":path", format!("/{path}"))].into_iter().collect();
    let Ok(parsed) = parser.parse_request(&headers, Bytes::copy_from_slice(body)) else { return };
    let prompt = parsed.prompt();
    let _ = prompt.cache_salt();
    let _ = Estimate::new(EstimateParameters::default()).tokenize(&prompt, &headers);
    if let Payload::Json(fields) = &parsed.payload {
        let written = json::encode_object(fields);
        let again = parser.parse_request(&headers, Bytes::from(written.clone())).expect("what is written is read");
        let Payload::Json(fields) = &again.payload else { panic!("JSON stays JSON") };
        assert_eq!(json::encode_object(fields), written);
        assert_eq!((again.model, again.stream), (parsed.model, parsed.stream));
    }
});
