//! Records, and blocks of them.

use super::varint::{put_varint, take_varint};
use crate::Instant;

/// Longest block. Unit: bytes, before compression. A record is shorter by its head.
pub const MAX_BLOCK: usize = 128 << 20;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// What the run was made from: the first record of each segment.
    Header,
    /// Something came from outside. The body is the input's.
    Input,
    /// Something was decided. The body is the decider's.
    Decision,
    /// The digest at this point, see [`Checkpoint`](super::Checkpoint).
    Checkpoint,
    /// A task was spawned.
    Task,
    /// An event was executed.
    Event,
    /// The run ended, see [`End`](super::End).
    End,
    /// A kind of a later version.
    Unknown(u8),
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Header => 0,
            Kind::Input => 1,
            Kind::Decision => 2,
            Kind::Checkpoint => 3,
            Kind::Task => 4,
            Kind::Event => 5,
            Kind::End => 6,
            Kind::Unknown(number) => number,
        }
    }

    fn of(number: u8) -> Self {
        match number {
            0 => Kind::Header,
            1 => Kind::Input,
            2 => Kind::Decision,
            3 => Kind::Checkpoint,
            4 => Kind::Task,
            5 => Kind::Event,
            6 => Kind::End,
            other => Kind::Unknown(other),
        }
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: Kind,
    /// When, in the time of the run.
    pub at: Instant,
    /// What it says.
    pub body: Vec<u8>,
}

/// Records that will be one frame.
#[derive(Clone, Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    last: u64,
}

impl Block {
    /// Returns a block without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a record.
    pub fn push(&mut self, kind: Kind, at: Instant, body: &[u8]) {
        self.bytes.push(kind.number());
        let at = at.as_nanos();
        put_varint(&mut self.bytes, at.wrapping_sub(self.last));
        self.last = at;
        put_varint(&mut self.bytes, body.len() as u64);
        self.bytes.extend_from_slice(body);
    }

    /// Returns how long it is. Unit: bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the records out as bytes.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.last = 0;
        std::mem::take(&mut self.bytes)
    }
}

/// Reads the records of a block.
#[derive(Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    offset: usize,
    last: u64,
}

impl Records {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Records { bytes, offset: 0, last: 0 }
    }

    /// Returns the next record, `None` behind the last.
    ///
    /// # Errors
    /// What is wrong with the block; it was written so, for its checksum held.
    pub(super) fn next(&mut self) -> Option<Result<Record, String>> {
        let rest = self.bytes.get(self.offset..).filter(|rest| !rest.is_empty())?;
        match first_of(rest, self.last) {
            Some((record, length)) => {
                self.offset += length;
                self.last = record.at.as_nanos();
                Some(Ok(record))
            }
            None => {
                let problem = format!("there is no record at byte {} of a block", self.offset);
                self.offset = self.bytes.len();
                Some(Err(problem))
            }
        }
    }
}

/// Returns the record at the front of `bytes` and its length; `last` is the time of the one before it.
fn first_of(bytes: &[u8], last: u64) -> Option<(Record, usize)> {
    let (&kind, mut rest) = bytes.split_first()?;
    let at = last.wrapping_add(take_varint(&mut rest)?);
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    let body = rest.get(..length)?.to_vec();
    let record = Record { kind: Kind::of(kind), at: Instant::from_nanos(at), body };
    Some((record, bytes.len() - rest.len() + length))
}
