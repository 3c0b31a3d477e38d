//! Log-probabilities of generated tokens.
//!
//! The simulated model is sure of each token: it has probability 1, and all others 0, which vLLM writes as -9999.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::Token;
use crate::model_server::tokenizer::Tokenizer;

const CERTAIN: f64 = 0.0;
const IMPOSSIBLE: f64 = -9999.0;

/// `logprobs` of a text completion's choice.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct TextLogprobs {
    text_offset: Vec<usize>,
    token_logprobs: Vec<f64>,
    tokens: Vec<String>,
    top_logprobs: Vec<BTreeMap<String, f64>>,
}

/// `logprobs` of a chat completion's choice.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChatLogprobs {
    content: Vec<ChatLogprob>,
}

#[derive(Clone, Debug, Serialize)]
struct ChatLogprob {
    #[serde(flatten)]
    token: Alternative,
    top_logprobs: Vec<Alternative>,
}

#[derive(Clone, Debug, Serialize)]
struct Alternative {
    token: String,
    logprob: f64,
    bytes: Vec<u8>,
}

/// The token, and the first `others` other tokens of the vocabulary.
fn ranked(token: Token, count: usize) -> impl Iterator<Item = (Token, f64)> {
    let others = (0..Tokenizer::TOKENS).filter(move |other| *other != token).map(|other| (other, IMPOSSIBLE));
    std::iter::once((token, CERTAIN)).chain(others).take(count)
}

impl TextLogprobs {
    /// The log-probabilities of `tokens`, with `alternatives` for each beside the token itself; `offset` is the number
    /// of characters before them, and moves behind them.
    pub(super) fn of(
        tokens: &[Token],
        alternatives: usize,
        tokenizer: &Tokenizer,
        offset: &mut usize,
    ) -> Self {
        let mut logprobs = Self::default();
        for token in tokens {
            let text = tokenizer.decode(&[*token]);
            let top = ranked(*token, alternatives.max(1));
            logprobs.text_offset.push(*offset);
            logprobs.token_logprobs.push(CERTAIN);
            logprobs.top_logprobs.push(top.map(|(token, p)| (tokenizer.decode(&[token]), p)).collect());
            *offset += text.chars().count();
            logprobs.tokens.push(text);
        }
        logprobs
    }
}

impl ChatLogprobs {
    /// The log-probabilities of `tokens`, with the `top` likeliest tokens at each place.
    pub(super) fn of(tokens: &[Token], top: usize, tokenizer: &Tokenizer) -> Self {
        let alternative = |(token, logprob): (Token, f64)| Alternative {
            token: tokenizer.decode(&[token]),
            logprob,
            bytes: tokenizer.bytes(token).to_vec(),
        };
        let content = tokens.iter().map(|token| ChatLogprob {
            token: alternative((*token, CERTAIN)),
            top_logprobs: ranked(*token, top).map(alternative).collect(),
        });
        Self { content: content.collect() }
    }
}
