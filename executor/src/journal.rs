//! The journal: a run on disk.
//!
//! A journal holds what a run was made from and what it did: a header, then one record an input and one a
//! decision, with checkpoints of the digest among them. Replayed, its inputs give its decisions. It is written
//! while the run goes on and can be read whatever ended the run.
//!
//! # Format, version 1
//!
//! All integers are little-endian. A *varint* has seven bits a byte, the lowest first; all bytes but the last
//! have the top bit set.
//!
//! A journal is a **folder** of segments `000001.lsj`, `000002.lsj`, ... A **segment** is a sequence of frames;
//! when it has reached its size ([`WriterOptions::segment_bytes`]) the next one begins.
//!
//! A **frame** stands or falls as a whole:
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | `LSJ1` |
//! | 4 | number of the frame in the journal, from 0 |
//! | 4 | `stored`: length of the payload |
//! | 4 | `raw`: length of the payload decompressed, at most [`MAX_BLOCK`] |
//! | 4 | CRC-32 (IEEE) of the 16 bytes before |
//! | `stored` | the payload: one zstd frame |
//! | 4 | CRC-32 of the payload |
//!
//! Lengths have a checksum of their own, so that nothing is allocated or skipped because of a flipped bit. A
//! payload is a **block** of records:
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | kind, see [`Kind`] |
//! | varint | time since the record before it in the block (since the start of the run: the first), ns |
//! | varint | length of the body |
//! | that many | the body |
//!
//! Every segment begins with a frame of one record, the [`Header`]. Bodies of headers, checkpoints and ends are
//! protobuf messages ([`Header`], [`Checkpoint`], [`End`]): a field that a later version adds is skipped by an
//! earlier one, and a missing one has its default. Kinds that are unknown are skipped. The other bodies belong to
//! what was run.
//!
//! # When it breaks off
//!
//! A frame is written with one call and never changed. What a crash, a full disk or a bad sector leaves behind
//! the last whole frame is not read: [`Reader`] ends there and says where and why in [`Reader::cut`]. Frames are
//! numbered, so a segment that is missing or twice there is found, too. A process that is killed loses the
//! records of the block that was being filled, at most a quarter of a second; a machine that loses power loses
//! what its file system had not written: segments are synced when they are complete.
//!
//! # Crates
//!
//! `crc32fast`, `zstd` and `prost` are what the ecosystem builds on (cargo itself, ripgrep's and rustc's tools,
//! tonic), released within the last year; `prost` was chosen over serde formats because its messages have
//! numbered fields: a journal is read by later versions.

mod block;
mod fault;
mod frame;
mod messages;
mod reader;
mod recorder;
mod varint;
mod writer;

pub use block::{Block, Kind, MAX_BLOCK, Record};
pub use fault::{Cut, JournalError};
pub use messages::{Checkpoint, End, Header};
pub use reader::Reader;
pub use recorder::{Recorder, RecorderStatus};
pub use varint::{put_varint, take_varint};
pub use writer::{Writer, WriterOptions};

/// The version that is written, and the highest that is read.
pub const VERSION: u32 = 1;

/// The extension of a segment's file.
const EXTENSION: &str = "lsj";

#[cfg(test)]
mod tests;
