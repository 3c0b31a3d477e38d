//! From the bytes of a message to its events (request-control spec 15.3).

use super::msgpack::{Reader, Token};
use super::{EngineType, KvBatch, KvEvent, sglang, vllm};

/// What is wrong with a message: the whole of it is dropped then, as the llm-d Router does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub(super) &'static str);

/// Decodes a batch: a list of its time, its events and a rank, which is not used.
///
/// Nil, an empty list and a mapping with `TS` and `Events` are taken as well, and what follows the batch is not
/// looked at: the llm-d Router's decoder takes them.
///
/// # Errors
/// The first thing that is wrong, in whichever event.
pub fn decode(engine: EngineType, payload: &[u8]) -> Result<KvBatch, DecodeError> {
    let mut reader = Reader::new(payload);
    let mut batch = KvBatch::default();
    match reader.token()? {
        Token::Nil | Token::Array(0) => {}
        Token::Array(3) => {
            batch.timestamp = timestamp(reader.token()?)?;
            batch.events = events(engine, &mut reader)?;
            rank(reader.token()?)?;
        }
        Token::Map(len) => {
            for _ in 0..len {
                match reader.token()? {
                    Token::Str(b"TS") | Token::Bin(b"TS") => batch.timestamp = timestamp(reader.token()?)?,
                    Token::Str(b"Events") | Token::Bin(b"Events") => {
                        batch.events = events(engine, &mut reader)?;
                    }
                    Token::Str(_) | Token::Bin(_) | Token::Nil => {
                        reader.raw()?;
                    }
                    _ => return Err(DecodeError("a batch whose keys are no texts")),
                }
            }
        }
        _ => return Err(DecodeError("a batch is a list of three: time, events and rank")),
    }
    Ok(batch)
}

fn timestamp(token: Token<'_>) -> Result<f64, DecodeError> {
    match token {
        Token::Nil => Ok(0.0),
        Token::Float(value) => Ok(value),
        token => token.integer().map(|value| value as f64).ok_or(DecodeError("a time that is no number")),
    }
}

fn rank(token: Token<'_>) -> Result<(), DecodeError> {
    match token {
        Token::Nil | Token::Short(_) | Token::U64(_) | Token::I64(_) => Ok(()),
        _ => Err(DecodeError("a rank that is no integer")),
    }
}

fn events(engine: EngineType, reader: &mut Reader<'_>) -> Result<Vec<KvEvent>, DecodeError> {
    let len = match reader.token()? {
        Token::Nil => 0,
        Token::Array(len) => len,
        _ => return Err(DecodeError("events that are no list")),
    };
    let event = |_| match engine {
        EngineType::Vllm => vllm::event(reader.any()?),
        EngineType::Sglang => sglang::event(reader.raw()?),
    };
    (0..len).map(event).collect()
}

/// Returns a hash: eight bytes as an integer, or the last eight of some bytes.
///
/// Shorter integers and texts are refused, as the llm-d Router refuses them.
pub(super) fn hash(token: Token<'_>) -> Result<u64, DecodeError> {
    match token {
        Token::U64(value) => Ok(value),
        Token::I64(value) => Ok(value as u64),
        Token::Bin(bytes @ [.., _]) => {
            let tail = &bytes[bytes.len().saturating_sub(8)..];
            Ok(tail.iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte)))
        }
        _ => Err(DecodeError("a hash that is neither a 64-bit integer nor bytes")),
    }
}

/// Returns the text of some bytes; what is no UTF-8 in it is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads the extra keys of one block: its texts, and the texts that its lists begin with; the rest is skipped.
pub(super) fn block_extra_keys(
    reader: &mut Reader<'_>,
    len: usize,
) -> Result<Option<Vec<String>>, DecodeError> {
    let mut keys = Vec::new();
    for _ in 0..len {
        let mut entry = Reader::new(reader.any()?);
        match entry.token()? {
            Token::Str(key) => keys.push(text(key)),
            Token::Array(1..) => {
                if let Token::Str(key) = entry.token()? {
                    keys.push(text(key));
                }
            }
            _ => {}
        }
    }
    Ok((!keys.is_empty()).then_some(keys))
}
