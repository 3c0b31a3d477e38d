//! Asking for batches that were missed.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use executor::Instant;

use super::super::message::Message;
use super::{ReplaySocket, Subscription, Transport, TransportError};

/// How long a replay may take in all.
const LIMIT: Duration = Duration::from_secs(120);

/// How long a server may be silent in a replay.
const IDLE: Duration = Duration::from_secs(2);

/// How long to wait before an interrupted replay goes on.
const PAUSE: Duration = Duration::from_millis(100);

/// Attempts in a row that bring nothing.
const FRUITLESS: u32 = 3;

/// Replays at a time in one router.
const SLOTS: usize = 8;

/// Bounds the replays that run at a time; its clones share the bound.
#[derive(Clone, Debug, Default)]
pub struct ReplaySlots(Rc<Cell<usize>>);

/// A replay that runs.
struct Slot(Rc<Cell<usize>>);

impl ReplaySlots {
    fn take(&self) -> Option<Slot> {
        if self.0.get() >= SLOTS {
            return None;
        }
        self.0.set(self.0.get() + 1);
        Some(Slot(Rc::clone(&self.0)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What came in a replay.
enum Reply {
    Batch(Message),
    End,
}

impl Reply {
    fn of(frames: &[Bytes]) -> Option<Self> {
        let frames = match frames {
            [delimiter, rest @ ..] if delimiter.is_empty() => rest,
            all => all,
        };
        match frames {
            [_, _, payload] if payload.is_empty() => Some(Reply::End),
            frames => Message::of(frames).map(Reply::Batch),
        }
    }
}

/// Why an attempt ended before the end of the replay.
enum Broken {
    /// The server has fallen silent or is gone: another attempt may go on.
    Off,
    /// What came is of no use.
    For(TransportError),
}

impl<T: Transport> Subscription<T> {
    /// Asks for the batches from `start` on and passes them on; returns whether that succeeded. Where it did not, the
    /// pod is forgotten: nobody knows what it holds.
    pub(super) async fn replay(&mut self, start: u64) -> bool {
        let replayed = match self.slots.take() {
            Some(_slot) => self.attempts(start).await,
            None => Err(TransportError::new("replay-capacity", "too many replays run")),
        };
        if let Err(error) = &replayed {
            self.telemetry.failed(error);
            // The llm-d Router takes the filter for the topic here, so that without an address no pod is meant.
            self.reset(&self.spec.filter.clone());
            self.failed = Some(self.rt.now());
        }
        replayed.is_ok()
    }

    async fn attempts(&mut self, start: u64) -> Result<(), TransportError> {
        let limit = self.rt.now() + LIMIT;
        let (mut next, mut fruitless) = (start, 0);
        loop {
            let before = next;
            match self.attempt(&mut next, limit).await {
                Ok(()) if next == start && start > 0 => {
                    let message = format!("nothing from {start} on is left");
                    return Err(TransportError::new("replay-incomplete", message));
                }
                Ok(()) => return Ok(()),
                Err(Broken::For(error)) => return Err(error),
                Err(Broken::Off) => {}
            }
            fruitless = if next == before { fruitless + 1 } else { 0 };
            if fruitless == FRUITLESS {
                let message = format!("{FRUITLESS} attempts in a row brought nothing");
                return Err(TransportError::new("replay-no-progress", message));
            }
            if self.rt.now() + PAUSE >= limit {
                return Err(TransportError::new("replay-incomplete", "it takes too long"));
            }
            self.rt.sleep(PAUSE).await;
        }
    }

    async fn attempt(&mut self, next: &mut u64, limit: Instant) -> Result<(), Broken> {
        let idle = self.rt.now() + IDLE;
        let opened = self.rt.deadline(idle.min(limit), self.transport.open_replay(&self.spec)).await;
        let timed_out = |_| Broken::For(TransportError::new("replay-connect", "no connection in time"));
        let mut socket = opened.map_err(timed_out)?.map_err(Broken::For)?;
        socket.ask(*next).await.map_err(Broken::For)?;
        loop {
            let idle = self.rt.now() + IDLE;
            let frames = match self.rt.deadline(idle.min(limit), socket.receive()).await {
                Ok(Ok(frames)) => frames,
                Ok(Err(_)) | Err(_) => return Err(Broken::Off),
            };
            let incomplete = |message| Broken::For(TransportError::new("replay-incomplete", message));
            match Reply::of(&frames) {
                None => return Err(incomplete("a reply is no message".to_owned())),
                Some(Reply::End) => return Ok(()),
                Some(Reply::Batch(message)) if message.sequence == *next => {
                    self.pass_on(&message);
                    *next = next.saturating_add(1);
                }
                Some(Reply::Batch(message)) => {
                    return Err(incomplete(format!("expected {next}, got {}", message.sequence)));
                }
            }
        }
    }
}
