//! Writing a journal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use prost::Message;

use super::block::{Block, Kind};
use super::fault::JournalError;
use super::messages::Header;
use super::{EXTENSION, VERSION, frame};
use crate::Instant;

/// A block is written when it is this long. Unit: bytes.
const BLOCK: usize = 256 << 10;

/// How a journal is written.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// A segment that has reached this length is the last but one. Unit: bytes.
    pub segment_bytes: u64,
    /// Level of compression, as zstd counts it.
    pub level: i32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { segment_bytes: 64 << 20, level: 1 }
    }
}

/// Writes a journal, frame by frame.
///
/// # Errors
/// Those of the file system. After the first the journal ends there: what was written stays readable, and
/// further calls fail.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    header: Header,
    options: WriterOptions,
    /// `None` after an error.
    file: Option<File>,
    /// Bytes of the segment so far.
    length: u64,
    /// The number of the next frame.
    frame: u32,
    written: u64,
    block: Block,
    encoded: Vec<u8>,
}

impl Writer {
    /// Begins a journal in `folder`, which is created where there is none. Version and segment of `header` are
    /// filled in here.
    ///
    /// # Errors
    /// When `folder` holds a journal, or cannot be written.
    pub fn create(folder: &Path, header: Header, options: WriterOptions) -> Result<Self, JournalError> {
        fs::create_dir_all(folder).map_err(|error| JournalError::io(folder, "create the folder", &error))?;
        let first = segment_path(folder, 1);
        if first.exists() {
            let accepted = "a new folder, or one without segments of a journal";
            return Err(JournalError::new(folder, "there is a journal already", accepted));
        }
        let mut writer = Writer {
            folder: folder.to_owned(),
            header: Header { version: VERSION, segment: 0, ..header },
            options,
            file: None,
            length: 0,
            frame: 0,
            written: 0,
            block: Block::new(),
            encoded: Vec::new(),
        };
        writer.open_segment().map_err(|error| JournalError::io(&first, "write", &error))?;
        Ok(writer)
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns how many bytes were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends a record to the block that is being filled; a block that is full is written.
    pub fn append(&mut self, kind: Kind, at: Instant, body: &[u8]) -> io::Result<()> {
        self.block.push(kind, at, body);
        if self.block.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    /// Writes the block that is being filled.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = self.block.take();
        self.write_block(&block)
    }

    /// Writes what there is and syncs it.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.as_ref().map_or_else(|| Err(ended()), File::sync_data)
    }

    /// Writes one block as a frame.
    pub(super) fn write_block(&mut self, block: &[u8]) -> io::Result<()> {
        if self.file.is_some() && self.length >= self.options.segment_bytes {
            let synced = self.file.as_ref().map_or(Ok(()), File::sync_data);
            synced.and_then(|()| self.open_segment()).inspect_err(|_| self.file = None)?;
        }
        self.write_frame(block)
    }

    fn open_segment(&mut self) -> io::Result<()> {
        self.header.segment += 1;
        let path = segment_path(&self.folder, self.header.segment);
        self.file = Some(OpenOptions::new().write(true).create_new(true).open(path)?);
        self.length = 0;
        let mut block = Block::new();
        block.push(Kind::Header, Instant::ZERO, &self.header.encode_to_vec());
        self.write_frame(&block.take())
    }

    fn write_frame(&mut self, block: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(ended()) };
        self.encoded.clear();
        let encoded = frame::encode(self.frame, block, self.options.level, &mut self.encoded);
        // Behind a torn frame nothing would be read.
        encoded.and_then(|()| file.write_all(&self.encoded)).inspect_err(|_| self.file = None)?;
        self.frame += 1;
        self.length += self.encoded.len() as u64;
        self.written += self.encoded.len() as u64;
        Ok(())
    }
}

fn ended() -> io::Error {
    io::Error::other("the journal has ended with an error before")
}

pub(super) fn segment_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:06}.{EXTENSION}"))
}
