//! Events as SGLang lays them out (model-server spec 3): a list with the tag first, and no more fields than are
//! known. The llm-d Router reads them into typed fields, which take nil for nothing.

use super::decode::{block_extra_keys, hash, text};
use super::msgpack::{Reader, Token};
use super::{DecodeError, KvEvent, Removed, Stored};
use crate::prefix::block_keys::ExtraKeys;

/// Decodes one event from its bytes.
pub(super) fn event(bytes: &[u8]) -> Result<KvEvent, DecodeError> {
    let mut reader = Reader::new(bytes);
    let Token::Array(len @ 1..) = reader.token()? else {
        return Err(DecodeError("an event is a list with a tag"));
    };
    let Token::Str(tag) = reader.token()? else { return Err(DecodeError("a tag that is no text")) };
    let mut fields = Fields { reader, left: len - 1 };
    match (tag, len) {
        (b"BlockStored", 5..=9) => Ok(KvEvent::Stored(Stored {
            hashes: fields.list(hash)?,
            parent: fields.optional()?.map_or(Ok(0), hash)?,
            tokens: fields.list(|token| Ok(integer(token)? as u32))?,
            block_size: fields.next(|token, _| integer(token))?,
            lora_id: fields.optional()?.map(integer).transpose()?,
            medium: fields.string()?.unwrap_or_default(),
            lora_name: fields.string()?,
            extra: fields.extra()?,
            ..Stored::default()
        })),
        (b"BlockRemoved", 2..=3) => Ok(KvEvent::Removed(Removed {
            hashes: fields.list(hash)?,
            medium: fields.string()?.unwrap_or_default(),
            group: None,
        })),
        (b"AllBlocksCleared", _) => Ok(KvEvent::Cleared),
        (b"BlockStored" | b"BlockRemoved", _) => Err(DecodeError("an event with too few or too many fields")),
        _ => Err(DecodeError("an event with an unknown tag")),
    }
}

/// An integer; nil is zero.
fn integer(token: Token<'_>) -> Result<i64, DecodeError> {
    match token {
        Token::Nil => Ok(0),
        token => token.integer().ok_or(DecodeError("a number that is no integer")),
    }
}

/// The fields that are still to be read.
struct Fields<'a> {
    reader: Reader<'a>,
    left: usize,
}

impl<'a> Fields<'a> {
    /// Reads the next field; an absent one reads as nil.
    fn next<T>(
        &mut self,
        read: impl FnOnce(Token<'a>, &mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.left == 0 {
            return read(Token::Nil, &mut self.reader);
        }
        self.left -= 1;
        let token = self.reader.token()?;
        read(token, &mut self.reader)
    }

    fn optional(&mut self) -> Result<Option<Token<'a>>, DecodeError> {
        self.next(|token, _| Ok(Some(token).filter(|token| *token != Token::Nil)))
    }

    fn string(&mut self) -> Result<Option<String>, DecodeError> {
        self.next(|token, _| match token {
            Token::Nil => Ok(None),
            Token::Str(bytes) | Token::Bin(bytes) => Ok(Some(text(bytes))),
            _ => Err(DecodeError("a medium or name that is no text")),
        })
    }

    fn list<T>(
        &mut self,
        element: impl Fn(Token<'a>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.next(|token, reader| {
            let len = length(token)?.unwrap_or(0);
            let mut list = Vec::with_capacity(len);
            for _ in 0..len {
                list.push(element(reader.token()?)?);
            }
            Ok(list)
        })
    }

    fn extra(&mut self) -> Result<Option<Vec<ExtraKeys>>, DecodeError> {
        self.next(|token, reader| {
            let Some(len) = length(token)? else { return Ok(None) };
            let block = |_| match length(reader.token()?)? {
                None => Ok(None),
                Some(len) => block_extra_keys(reader, len),
            };
            (0..len).map(block).collect::<Result<_, _>>().map(Some)
        })
    }
}

/// The length of a list; `None` = nil.
fn length(token: Token<'_>) -> Result<Option<usize>, DecodeError> {
    match token {
        Token::Nil => Ok(None),
        Token::Array(len) => Ok(Some(len)),
        _ => Err(DecodeError("a list was expected")),
    }
}
