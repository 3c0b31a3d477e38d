//! A chat of 220 kB: reading it, and naming the blocks of its 55,000 tokens.

use std::hint::black_box;

use bytes::Bytes;
use router::headers::Headers;
use router::prefix::block_keys::BlockHasher;
use router::prefix::prompt_hashes;
use router::producers::token_producer::{Estimate, EstimateParameters};
use router::request::{ParsedBody, ParserRegistry, TokenizedPrompt};
use serde_json::json;

use crate::measure::median_us;
use crate::{Goal, Row};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "parse", unit: "us", goal: Goal::AtMost(400.0), measure: parse },
    Row { name: "approximate-hashes", unit: "us", goal: Goal::AtMost(60.0), measure: approximate_hashes },
    Row { name: "block-keys", unit: "us", goal: Goal::AtMost(800.0), measure: block_keys },
];

const ROUNDS: usize = 200;

/// Length of the prompt. Unit: bytes.
const LENGTH: usize = 220_000;

/// Messages of the chat.
const MESSAGES: usize = 40;

/// Returns the chat as it comes: lines of words, with what JSON escapes at the end of each.
fn body() -> Bytes {
    let mut words = (0u32..).map(|n| n.wrapping_mul(2_654_435_761) % 100_000);
    let message = |role: &str, words: &mut dyn Iterator<Item = u32>| {
        let mut text = String::new();
        while text.len() < LENGTH / MESSAGES {
            for word in words.take(12) {
                text.push_str(&format!("w{word} "));
            }
            text.push_str("\"end\"\n");
        }
        text.truncate(LENGTH / MESSAGES - role.len());
        json!({ "role": role, "content": text })
    };
    let messages: Vec<_> = (0..MESSAGES).map(|n| message(["user", "assistant"][n % 2], &mut words)).collect();
    let body = json!({ "model": "m", "stream": true, "max_tokens": 100, "messages": messages });
    body.to_string().into()
}

fn headers() -> Headers {
    [(":path", "/v1/chat/completions")].into_iter().collect()
}

fn parsed() -> ParsedBody {
    ParserRegistry::default().parse(&headers(), body()).expect("it parses").0
}

fn tokens() -> TokenizedPrompt {
    let estimate = Estimate::new(EstimateParameters::default());
    let tokens = estimate.tokenize(&parsed().prompt(), &headers()).expect("a chat");
    assert_eq!(tokens.token_count(), LENGTH / 4);
    tokens
}

fn parse() -> f64 {
    let (registry, headers, body) = (ParserRegistry::default(), headers(), body());
    median_us(ROUNDS, || registry.parse(&headers, black_box(body.clone())).expect("it parses"))
}

fn approximate_hashes() -> f64 {
    let tokens = tokens();
    median_us(ROUNDS, || prompt_hashes("m", black_box(&tokens), 64, 2048))
}

fn block_keys() -> f64 {
    let (tokens, hasher) = (tokens(), BlockHasher::new(16, ""));
    let root = hasher.root("m");
    median_us(ROUNDS, || {
        let mut keys = Vec::new();
        hasher.chain(root, black_box(&tokens.prompts[0]), None, &mut keys).expect("no extra keys");
        keys
    })
}
