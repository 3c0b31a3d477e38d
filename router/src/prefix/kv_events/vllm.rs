//! Events as vLLM lays them out (model-server spec 3): a list with the tag first, or a mapping with the key `type`.

use super::decode::{block_extra_keys, hash, text};
use super::msgpack::{Reader, Token};
use super::{DecodeError, KvEvent, Removed, Stored};
use crate::prefix::block_keys::ExtraKeys;

/// Names of the fields behind the tag, in order.
const STORED: [&str; 11] = [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
];
const REMOVED: [&str; 3] = ["block_hashes", "medium", "group_idx"];

/// Most fields of an event that are looked at.
const FIELDS: usize = STORED.len();

/// The bytes of each field; `None` = it is absent.
type Fields<'a> = [Option<&'a [u8]>; FIELDS];

/// Decodes one event from its bytes, which are well formed.
pub(super) fn event(bytes: &[u8]) -> Result<KvEvent, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.token()? {
        Token::Array(0) => Err(DecodeError("an event without a tag")),
        Token::Array(len) => {
            let Token::Str(tag) = reader.token()? else { return Err(DecodeError("a tag that is no text")) };
            let mut fields = Fields::default();
            for field in fields.iter_mut().take(len - 1) {
                *field = Some(reader.raw()?);
            }
            let fewest = match tag {
                b"BlockStored" => 5,
                b"BlockRemoved" => 2,
                _ => 1,
            };
            if len < fewest {
                return Err(DecodeError("an event with too few fields"));
            }
            tagged(tag, &fields)
        }
        Token::Map(len) => {
            let names = names(reader, len)?;
            let Some(Token::Str(tag)) = names.last_of("type")? else {
                return Err(DecodeError("an event without a text as its type"));
            };
            let mut fields = Fields::default();
            let order: &[&str] = if tag == b"BlockRemoved" { &REMOVED } else { &STORED };
            for (field, name) in fields.iter_mut().zip(order) {
                *field = names.raw_of(name);
            }
            tagged(tag, &fields)
        }
        _ => Err(DecodeError("an event is a list or a mapping")),
    }
}

fn tagged(tag: &[u8], fields: &Fields<'_>) -> Result<KvEvent, DecodeError> {
    let at = |index: usize| fields[index].map(Reader::new);
    match tag {
        b"BlockStored" => Ok(KvEvent::Stored(Stored {
            hashes: hashes(at(0))?,
            parent: parent(at(1))?,
            tokens: tokens(at(2))?,
            block_size: integer(at(3))?.ok_or(DecodeError("a block size that is no integer"))?,
            lora_id: integer(at(4))?,
            medium: string(at(5))?.unwrap_or_default(),
            lora_name: string(at(6))?,
            extra: extra(at(7))?,
            group: group(at(8))?,
            kind: string(at(9))?,
            window: integer(at(10))?,
        })),
        b"BlockRemoved" => Ok(KvEvent::Removed(Removed {
            hashes: hashes(at(0))?,
            medium: string(at(1))?.unwrap_or_default(),
            group: group(at(2))?,
        })),
        b"AllBlocksCleared" => Ok(KvEvent::Cleared),
        _ => Err(DecodeError("an event with an unknown tag")),
    }
}

/// The members of a mapping: keys and bytes.
struct Names<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> Names<'a> {
    /// Returns the bytes of the last member called `name`.
    fn raw_of(&self, name: &str) -> Option<&'a [u8]> {
        self.0.iter().rev().find(|(key, _)| *key == name.as_bytes()).map(|(_, raw)| *raw)
    }

    fn last_of(&self, name: &str) -> Result<Option<Token<'a>>, DecodeError> {
        self.raw_of(name).map(|raw| Reader::new(raw).token()).transpose()
    }
}

fn names(mut reader: Reader<'_>, len: usize) -> Result<Names<'_>, DecodeError> {
    let mut names = Vec::new();
    for _ in 0..len {
        let key = match reader.token()? {
            Token::Str(key) | Token::Bin(key) => key,
            _ => b"",
        };
        names.push((key, reader.raw()?));
    }
    Ok(Names(names))
}

/// Reads a list that must be there, element by element.
fn list<T>(
    field: Option<Reader<'_>>,
    what: &'static str,
    element: impl Fn(Token<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut reader = field.ok_or(DecodeError(what))?;
    let Token::Array(len) = reader.token()? else { return Err(DecodeError(what)) };
    let mut list = Vec::with_capacity(len);
    for _ in 0..len {
        list.push(element(reader.token()?)?);
    }
    Ok(list)
}

fn hashes(field: Option<Reader<'_>>) -> Result<Vec<u64>, DecodeError> {
    list(field, "block hashes that are no list", hash)
}

/// Reads token ids; wider and negative ones are cut to 32 bits.
fn tokens(field: Option<Reader<'_>>) -> Result<Vec<u32>, DecodeError> {
    const NO_LIST: DecodeError = DecodeError("token ids that are no list");
    let mut reader = field.ok_or(NO_LIST)?;
    let Token::Array(len) = reader.token()? else { return Err(NO_LIST) };
    let mut tokens = Vec::with_capacity(len);
    for _ in 0..len {
        tokens.push(match reader.small_unsigned() {
            Some(token) => token,
            None => {
                let id = reader.token()?.integer();
                id.ok_or(DecodeError("a token id that is no integer"))? as u32
            }
        });
    }
    Ok(tokens)
}

fn parent(field: Option<Reader<'_>>) -> Result<u64, DecodeError> {
    match optional(field)? {
        None => Ok(0),
        Some(token) => hash(token),
    }
}

fn integer(field: Option<Reader<'_>>) -> Result<Option<i64>, DecodeError> {
    let integer = |token: Token<'_>| token.integer().ok_or(DecodeError("a number that is no integer"));
    optional(field)?.map(integer).transpose()
}

fn group(field: Option<Reader<'_>>) -> Result<Option<i64>, DecodeError> {
    integer(field)?
        .map(|group| if group < 0 { Err(DecodeError("a group below zero")) } else { Ok(group) })
        .transpose()
}

fn string(field: Option<Reader<'_>>) -> Result<Option<String>, DecodeError> {
    match optional(field)? {
        None => Ok(None),
        Some(Token::Str(bytes)) => Ok(Some(text(bytes))),
        Some(_) => Err(DecodeError("a medium, name or kind that is no text")),
    }
}

fn extra(field: Option<Reader<'_>>) -> Result<Option<Vec<ExtraKeys>>, DecodeError> {
    let wrong = DecodeError("extra keys are a list of lists");
    let Some(mut reader) = field else { return Ok(None) };
    let len = match reader.token()? {
        Token::Nil => return Ok(None),
        Token::Array(len) => len,
        _ => return Err(wrong),
    };
    let block = |_| match reader.token()? {
        Token::Nil => Ok(None),
        Token::Array(len) => block_extra_keys(&mut reader, len),
        _ => Err(wrong),
    };
    (0..len).map(block).collect::<Result<_, _>>().map(Some)
}

/// Reads a value that may be absent or nil.
fn optional(field: Option<Reader<'_>>) -> Result<Option<Token<'_>>, DecodeError> {
    let token = field.map(|mut reader| reader.token()).transpose()?;
    Ok(token.filter(|token| *token != Token::Nil))
}
