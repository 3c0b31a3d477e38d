//! Reads MessagePack without trusting it: no recursion, no room for what is only claimed.

use super::DecodeError;

/// One value, or the head of a list or mapping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Nil,
    Bool,
    /// An integer in fewer than eight bytes.
    Short(i64),
    /// `uint64`.
    U64(u64),
    /// `int64`.
    I64(i64),
    Float(f64),
    Str(&'a [u8]),
    Bin(&'a [u8]),
    Array(usize),
    Map(usize),
    /// An extension: its type, and its bytes.
    Ext(i8, &'a [u8]),
}

impl Token<'_> {
    /// Returns an integer of any width; one that is too large wraps.
    pub(super) fn integer(&self) -> Option<i64> {
        match *self {
            Token::Short(value) | Token::I64(value) => Some(value),
            Token::U64(value) => Some(value as i64),
            _ => None,
        }
    }
}

/// Reads one value after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    /// Reads a value; of a list or mapping its head.
    #[inline]
    pub(super) fn token(&mut self) -> Result<Token<'a>, DecodeError> {
        let marker = self.fixed::<1>()?[0];
        Ok(match marker {
            0x00..=0x7f => Token::Short(i64::from(marker)),
            0x80..=0x8f => return self.map(usize::from(marker & 0x0f)),
            0x90..=0x9f => return self.array(usize::from(marker & 0x0f)),
            0xa0..=0xbf => Token::Str(self.take(usize::from(marker & 0x1f))?),
            0xc0 => Token::Nil,
            0xc1 => return Err(DecodeError("a reserved MessagePack code")),
            0xc2 | 0xc3 => Token::Bool,
            0xc4 => Token::Bin(self.sized::<1>()?),
            0xc5 => Token::Bin(self.sized::<2>()?),
            0xc6 => Token::Bin(self.sized::<4>()?),
            0xc7 => return self.ext::<1>(),
            0xc8 => return self.ext::<2>(),
            0xc9 => return self.ext::<4>(),
            0xca => Token::Float(f64::from(f32::from_be_bytes(self.fixed()?))),
            0xcb => Token::Float(f64::from_be_bytes(self.fixed()?)),
            0xcc => Token::Short(i64::from(self.fixed::<1>()?[0])),
            0xcd => Token::Short(i64::from(u16::from_be_bytes(self.fixed()?))),
            0xce => Token::Short(i64::from(u32::from_be_bytes(self.fixed()?))),
            0xcf => Token::U64(u64::from_be_bytes(self.fixed()?)),
            0xd0 => Token::Short(i64::from(i8::from_be_bytes(self.fixed()?))),
            0xd1 => Token::Short(i64::from(i16::from_be_bytes(self.fixed()?))),
            0xd2 => Token::Short(i64::from(i32::from_be_bytes(self.fixed()?))),
            0xd3 => Token::I64(i64::from_be_bytes(self.fixed()?)),
            0xd4..=0xd8 => {
                let kind = self.fixed::<1>()?[0] as i8;
                Token::Ext(kind, self.take(1 << (marker - 0xd4))?)
            }
            0xd9 => Token::Str(self.sized::<1>()?),
            0xda => Token::Str(self.sized::<2>()?),
            0xdb => Token::Str(self.sized::<4>()?),
            0xdc | 0xdd => {
                let len = self.length(marker == 0xdd)?;
                return self.array(len);
            }
            0xde | 0xdf => {
                let len = self.length(marker == 0xdf)?;
                return self.map(len);
            }
            0xe0..=0xff => Token::Short(i64::from(marker as i8)),
        })
    }

    /// Reads one value with everything in it and returns its bytes.
    pub(super) fn raw(&mut self) -> Result<&'a [u8], DecodeError> {
        self.skip(|_, _| Ok(()))
    }

    /// Reads one value with everything in it, as a reader that takes whatever it finds: keys of mappings must be
    /// texts, and an extension must be a time.
    pub(super) fn any(&mut self) -> Result<&'a [u8], DecodeError> {
        self.skip(|token, is_key| match token {
            Token::Str(_) | Token::Bin(_) | Token::Nil => Ok(()),
            Token::Ext(-1, [.., _]) if is_time(&token) => Ok(()),
            Token::Ext(..) => Err(DecodeError("an unknown MessagePack extension")),
            _ if is_key => Err(DecodeError("a key that is no text")),
            _ => Ok(()),
        })
    }

    fn skip(
        &mut self,
        check: impl Fn(Token<'a>, bool) -> Result<(), DecodeError>,
    ) -> Result<&'a [u8], DecodeError> {
        let start = self.bytes;
        // Values still to come at each depth, and whether they are keys and values by turns. Depth costs a byte
        // of input each, and an element here is small.
        let mut open: Vec<(usize, bool)> = vec![(1, false)];
        while let Some((left, is_map)) = open.last_mut() {
            if *left == 0 {
                open.pop();
                continue;
            }
            if !*is_map {
                // Lists of numbers are most of what engines send.
                self.skip_integers(left);
                if *left == 0 {
                    continue;
                }
            }
            *left -= 1;
            let is_key = *is_map && *left % 2 == 1;
            let token = self.token()?;
            check(token, is_key)?;
            match token {
                Token::Array(len) => open.push((len, false)),
                Token::Map(len) => open.push((2 * len, true)),
                _ => {}
            }
        }
        Ok(&start[..start.len() - self.bytes.len()])
    }

    /// Skips the integers that follow, at most `left` of them, which are counted off.
    fn skip_integers(&mut self, left: &mut usize) {
        let mut at = 0;
        while *left > 0 {
            let Some(marker) = self.bytes.get(at) else { break };
            let size = usize::from(INTEGER_SIZES[usize::from(*marker)]);
            if size == 0 || self.bytes.len() - at < size {
                break;
            }
            at += size;
            *left -= 1;
        }
        self.bytes = &self.bytes[at..];
    }

    /// Reads an integer of up to four bytes without a sign, `None` where something else follows.
    #[inline]
    pub(super) fn small_unsigned(&mut self) -> Option<u32> {
        let (number, rest) = match *self.bytes {
            [number @ 0..0x80, ref rest @ ..] => (u32::from(number), rest),
            [0xcd, a, b, ref rest @ ..] => (u32::from(u16::from_be_bytes([a, b])), rest),
            [0xce, a, b, c, d, ref rest @ ..] => (u32::from_be_bytes([a, b, c, d]), rest),
            _ => return None,
        };
        self.bytes = rest;
        Some(number)
    }

    /// Checks a list's length against what is there: every element has a byte.
    fn array(&self, len: usize) -> Result<Token<'a>, DecodeError> {
        if len > self.bytes.len() { Err(CUT) } else { Ok(Token::Array(len)) }
    }

    fn map(&self, len: usize) -> Result<Token<'a>, DecodeError> {
        if len > self.bytes.len() / 2 { Err(CUT) } else { Ok(Token::Map(len)) }
    }

    fn length(&mut self, is_wide: bool) -> Result<usize, DecodeError> {
        Ok(match is_wide {
            false => usize::from(u16::from_be_bytes(self.fixed()?)),
            true => u32::from_be_bytes(self.fixed()?) as usize,
        })
    }

    fn sized<const N: usize>(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.fixed::<N>()?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        self.take(len)
    }

    fn ext<const N: usize>(&mut self) -> Result<Token<'a>, DecodeError> {
        let len = self.fixed::<N>()?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        let kind = self.fixed::<1>()?[0] as i8;
        Ok(Token::Ext(kind, self.take(len)?))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.bytes.split_first_chunk::<N>().ok_or(CUT)?;
        self.bytes = rest;
        Ok(*head)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.bytes.split_at_checked(len).ok_or(CUT)?;
        self.bytes = rest;
        Ok(head)
    }
}

/// The bytes that an integer takes, by its first one; 0 = it is none.
static INTEGER_SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut marker = 0;
    while marker < sizes.len() {
        sizes[marker] = match marker {
            0x00..0x80 | 0xe0.. => 1,
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 => 3,
            0xce | 0xd2 => 5,
            0xcf | 0xd3 => 9,
            _ => 0,
        };
        marker += 1;
    }
    sizes
};

/// The input ends too early.
const CUT: DecodeError = DecodeError("the message is cut off");

fn is_time(token: &Token<'_>) -> bool {
    matches!(token, Token::Ext(-1, bytes) if matches!(bytes.len(), 4 | 8 | 12))
}
