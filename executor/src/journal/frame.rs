//! Frames: blocks with lengths and checksums.

use std::io::{self, Read};

use super::block::MAX_BLOCK;

const MAGIC: [u8; 4] = *b"LSJ1";

/// Length of what stands before a payload.
const HEAD: usize = 20;

/// Appends the frame of `block` to `out`.
///
/// # Errors
/// A block that is too long.
pub(super) fn encode(number: u32, block: &[u8], level: i32, out: &mut Vec<u8>) -> io::Result<()> {
    if block.len() > MAX_BLOCK {
        let message = format!("a block of {} bytes is longer than {MAX_BLOCK}", block.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let payload = zstd::bulk::compress(block, level)?;
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&(block.len() as u32).to_le_bytes());
    let head_sum = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&head_sum.to_le_bytes());
    out.extend_from_slice(&payload);
    out.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    Ok(())
}

/// What stands where a frame was expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole frame: its block, and its length in the file.
    Frame(Vec<u8>, u64),
    /// The end of the file.
    End,
    /// No whole frame; says why.
    Broken(String),
}

/// Reads the frame `number` from `file`, which has `left` bytes left.
pub(super) fn decode(number: u32, left: u64, file: &mut impl Read) -> Found {
    match read(number, left, file) {
        Ok(found) => found,
        Err(error) => Found::Broken(format!("it cannot be read: {error}")),
    }
}

fn read(number: u32, left: u64, file: &mut impl Read) -> io::Result<Found> {
    if left == 0 {
        return Ok(Found::End);
    }
    if left < HEAD as u64 {
        return Ok(Found::Broken(format!("the head of a frame is torn: {left} of {HEAD} bytes are there")));
    }
    let mut head = [0; HEAD];
    file.read_exact(&mut head)?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if crc32fast::hash(&head[..16]) != word(16) || head[..4] != MAGIC {
        return Ok(Found::Broken("the head of a frame does not have its checksum".to_owned()));
    }
    if word(4) != number {
        return Ok(Found::Broken(format!("frame {} stands where frame {number} belongs", word(4))));
    }
    let (stored, raw) = (u64::from(word(8)), word(12) as usize);
    let rest = left - HEAD as u64;
    if rest < stored + 4 {
        return Ok(Found::Broken(format!("a frame is torn: {rest} of {} bytes are there", stored + 4)));
    }
    if raw > MAX_BLOCK {
        return Ok(Found::Broken(format!("a block of {raw} bytes is longer than {MAX_BLOCK}")));
    }
    // As long as what is there: the file has these bytes.
    let mut payload = Vec::new();
    file.take(stored).read_to_end(&mut payload)?;
    let mut sum = [0; 4];
    file.read_exact(&mut sum)?;
    if crc32fast::hash(&payload) != u32::from_le_bytes(sum) {
        return Ok(Found::Broken("a frame does not have its checksum".to_owned()));
    }
    // Grows with what comes out, and no further than one byte above what was announced.
    let mut block = Vec::new();
    let mut decoder = zstd::stream::read::Decoder::new(payload.as_slice())?;
    decoder.by_ref().take(raw as u64 + 1).read_to_end(&mut block)?;
    if block.len() != raw {
        return Ok(Found::Broken(format!("a block does not have its {raw} bytes")));
    }
    Ok(Found::Frame(block, HEAD as u64 + stored + 4))
}
