//! Recording beside a run that must not wait for a disk.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use super::block::{Block, Kind};
use super::writer::Writer;
use crate::Instant;

/// A block is handed over when it is this long. Unit: bytes.
const BLOCK: usize = 128 << 10;

/// A block is handed over when its first record is this old.
const AGE: Duration = Duration::from_millis(200);

/// How many blocks may wait for the disk: 16 MiB of records of ordinary length.
const WAITING: usize = 128;

/// Hands records to a thread that compresses and writes them.
///
/// It never waits: when the disk fails, or has fallen behind by 128 blocks, recording ends, one line of
/// the log says why, and the run goes on. What was written stays readable.
pub struct Recorder {
    block: Block,
    /// When the block's first record is due to be handed over.
    due: Option<Instant>,
    /// `None` once recording has ended.
    blocks: Option<SyncSender<Vec<u8>>>,
    status: Arc<RecorderStatus>,
    thread: Option<JoinHandle<()>>,
}

/// How a recording goes, for those who watch it from other threads.
#[derive(Debug, Default)]
pub struct RecorderStatus {
    records: AtomicU64,
    bytes: AtomicU64,
    failure: OnceLock<String>,
}

impl RecorderStatus {
    /// Returns how many records were taken.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Returns how many bytes were written.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns why recording ended before the run did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn fail(&self, why: String) {
        if self.failure.set(why).is_ok() {
            tracing::error!(
                error = self.failure().unwrap_or_default(),
                "recording has ended; the run goes on without"
            );
        }
    }
}

impl Recorder {
    /// Starts to record with `writer`.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(writer: Writer) -> io::Result<Self> {
        let (blocks, waiting) = mpsc::sync_channel(WAITING);
        let status = Arc::new(RecorderStatus::default());
        let told = Arc::clone(&status);
        let thread = std::thread::Builder::new().name("lockstep-journal".to_owned());
        let thread = thread.spawn(move || write(writer, &waiting, &told))?;
        Ok(Recorder { block: Block::new(), due: None, blocks: Some(blocks), status, thread: Some(thread) })
    }

    /// Returns how it goes.
    pub fn status(&self) -> &Arc<RecorderStatus> {
        &self.status
    }

    /// Returns whether records are taken.
    pub fn is_recording(&self) -> bool {
        self.blocks.is_some()
    }

    /// Appends a record.
    pub fn append(&mut self, kind: Kind, at: Instant, body: &[u8]) {
        if self.blocks.is_none() {
            return;
        }
        self.block.push(kind, at, body);
        self.status.records.fetch_add(1, Ordering::Relaxed);
        let due = *self.due.get_or_insert(at + AGE);
        if self.block.len() >= BLOCK || at >= due {
            self.flush();
        }
    }

    /// Returns when the records that are held are to be handed over at the latest, see [`flush`](Self::flush).
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Hands over what is held.
    pub fn flush(&mut self) {
        self.due = None;
        if self.block.is_empty() {
            return;
        }
        let block = self.block.take();
        match self.blocks.as_ref().map(|blocks| blocks.try_send(block)) {
            None | Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => {
                self.status.fail(format!("the disk is behind by {WAITING} blocks"));
                self.blocks = None;
            }
            // The thread has said why.
            Some(Err(TrySendError::Disconnected(_))) => self.blocks = None,
        }
    }
}

impl Drop for Recorder {
    /// Writes what is held and waits for the disk.
    fn drop(&mut self) {
        self.flush();
        self.blocks = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.status.fail("the thread that writes has panicked".to_owned());
        }
    }
}

fn write(mut writer: Writer, blocks: &Receiver<Vec<u8>>, status: &RecorderStatus) {
    status.bytes.store(writer.written(), Ordering::Relaxed);
    let failed = |error: io::Error, folder: &std::path::Path| {
        status.fail(format!("{}: {error}", folder.display()));
    };
    for block in blocks {
        if let Err(error) = writer.write_block(&block) {
            return failed(error, writer.folder());
        }
        status.bytes.store(writer.written(), Ordering::Relaxed);
    }
    let folder = writer.folder().to_owned();
    if let Err(error) = writer.finish() {
        failed(error, &folder);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("status", &self.status).finish_non_exhaustive()
    }
}
