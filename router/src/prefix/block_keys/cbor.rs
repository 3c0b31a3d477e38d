//! The canonical CBOR (RFC 8949, 4.2.1) of a block, written straight into a hash.

/// Takes the bytes of an encoding.
pub(super) trait Sink {
    fn byte(&mut self, byte: u8);

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }
}

impl Sink for Vec<u8> {
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }
}

/// FNV-1a, 64 bits.
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(super) fn finish(self) -> u64 {
        self.0
    }
}

impl Sink for Fnv {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
}

/// Returns the FNV-1a hash of `bytes`, 64 bits wide.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.bytes(bytes);
    hash.finish()
}

const UNSIGNED: u8 = 0x00;
const TEXT: u8 = 0x60;
const ARRAY: u8 = 0x80;
const MAP: u8 = 0xa0;
const NULL: u8 = 0xf6;

/// Writes `[init, null, model]`.
pub(super) fn root(out: &mut impl Sink, init: u64, model: &str) {
    head(out, ARRAY, 3);
    head(out, UNSIGNED, init);
    out.byte(NULL);
    text(out, model);
}

/// Writes `[parent, tokens, extra]`; each extra key is a map `{"Hash": key}`.
pub(super) fn block(out: &mut impl Sink, parent: u64, tokens: &[u32], extra: Option<&[String]>) {
    head(out, ARRAY, 3);
    head(out, UNSIGNED, parent);
    head(out, ARRAY, tokens.len() as u64);
    for token in tokens {
        head(out, UNSIGNED, u64::from(*token));
    }
    match extra {
        None => out.byte(NULL),
        Some(keys) => {
            head(out, ARRAY, keys.len() as u64);
            for key in keys {
                head(out, MAP, 1);
                text(out, "Hash");
                text(out, key);
            }
        }
    }
}

fn text(out: &mut impl Sink, text: &str) {
    head(out, TEXT, text.len() as u64);
    out.bytes(text.as_bytes());
}

/// Writes a major type with its argument in the shortest form.
#[inline]
fn head(out: &mut impl Sink, major: u8, argument: u64) {
    match argument {
        0..24 => out.byte(major | argument as u8),
        24..0x100 => {
            out.byte(major | 24);
            out.byte(argument as u8);
        }
        0x100..0x1_0000 => {
            out.byte(major | 25);
            out.bytes(&(argument as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.byte(major | 26);
            out.bytes(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.byte(major | 27);
            out.bytes(&argument.to_be_bytes());
        }
    }
}
