//! Times and inputs from a journal.

use std::fmt;
use std::future::Future;
use std::iter::Peekable;
use std::rc::Rc;
use std::sync::Arc;

use prost::Message;

use super::exchanges::Exchanges;
use super::port::AnyPort;
use super::queue::Queue;
use super::world::{Input, Moment, Next, ROOT, Source, World};
use crate::journal::{Checkpoint, Kind, Reader, Record, take_varint};
use crate::{EventSink, Instant, Outcome, Rt, Run, Sim, SimBuilder, WallTime};

/// What a replay tells while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// The recording decided this.
    Recorded(Instant, &'a [u8]),
    /// The replay decides this.
    Decided(Instant, &'a [u8]),
    /// A point at which the recording noted its digest, and whether the replay has the same.
    Checkpoint(Instant, bool),
    /// An input that cannot be taken: the replay ends before it.
    Unreadable(Instant, &'a str),
}

/// Runs hosted code over the journal of a [`Live`](super::Live) run.
///
/// # Determinism
/// The code that was recorded, built the same way, does what it did: same events, same digest. Other code, or the
/// same with another configuration, gets the same inputs at the same times.
pub struct Replay {
    sim: SimBuilder,
    records: Reader,
    tell: Box<dyn FnMut(Told<'_>)>,
}

impl Replay {
    /// Returns a replay of what `journal` has left, with its seed and its clock.
    pub fn new(journal: Reader) -> Self {
        let header = journal.header();
        let epoch = WallTime::from_unix_nanos(header.epoch);
        Replay {
            sim: Sim::builder().seed(header.seed).epoch(epoch),
            records: journal,
            tell: Box::new(|_| {}),
        }
    }

    /// Tells `tell` of decisions and checkpoints as they come. It must not use a handle of the runtime.
    pub fn tell(mut self, tell: impl FnMut(Told<'_>) + 'static) -> Self {
        self.tell = Box::new(tell);
        self
    }

    /// Tells `sink` of every task and event.
    pub fn trace(mut self, sink: impl EventSink + 'static) -> Self {
        self.sim = self.sim.trace(sink);
        self
    }

    /// Ends the replay after so many events.
    pub fn max_events(mut self, limit: u64) -> Self {
        self.sim = self.sim.max_events(limit);
        self
    }

    /// Runs the root future over the journal, up to the end of one or the other.
    pub fn run<F, Fut>(self, root: F) -> Run<Fut::Output>
    where
        F: FnOnce(Rt) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        let recorded = Box::new(Recorded { records: self.records.peekable(), tell: self.tell });
        let queue = Arc::new(Queue::closed());
        let world = World::new(Source::Journal(recorded), queue, Exchanges::replayed());
        self.sim.in_world(Rc::new(world)).run_at(ROOT, root)
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("sim", &self.sim).finish_non_exhaustive()
    }
}

/// The journal as a source.
pub(super) struct Recorded {
    records: Peekable<Reader>,
    tell: Box<dyn FnMut(Told<'_>)>,
}

impl Recorded {
    pub(super) fn wait(&mut self, moment: &Moment, ports: impl Fn(u32) -> Option<Rc<dyn AnyPort>>) -> Next {
        loop {
            let Some(Record { at, .. }) = self.records.peek() else { return Next::Over(Outcome::Completed) };
            if moment.is_due(*at) {
                return Next::Time(*at);
            }
            let Some(Record { kind, at, body }) = self.records.next() else { continue };
            match kind {
                Kind::Input => match read(&body, &ports) {
                    Ok(input) => return Next::Input(at, input),
                    Err(problem) => {
                        (self.tell)(Told::Unreadable(at, &problem));
                        return Next::Over(Outcome::Completed);
                    }
                },
                Kind::Decision => (self.tell)(Told::Recorded(at, &body)),
                Kind::Checkpoint => {
                    let here = Checkpoint { events: moment.events, digest: moment.digest };
                    let same = Checkpoint::decode(body.as_slice()).is_ok_and(|there| there == here);
                    (self.tell)(Told::Checkpoint(at, same));
                }
                _ => {}
            }
        }
    }

    /// Tells the decisions that were made in the last events of the run.
    pub(super) fn end(&mut self) {
        for Record { at, body, .. } in self.records.by_ref().filter(|record| record.kind == Kind::Decision) {
            (self.tell)(Told::Recorded(at, &body));
        }
    }

    pub(super) fn decided(&mut self, now: Instant, body: &[u8]) {
        (self.tell)(Told::Decided(now, body));
    }
}

fn read(mut body: &[u8], ports: impl Fn(u32) -> Option<Rc<dyn AnyPort>>) -> Result<Input, String> {
    let number = take_varint(&mut body).and_then(|number| u32::try_from(number).ok());
    let number = number.ok_or("it does not name its port")?;
    let port = ports(number).ok_or_else(|| format!("there is no port {number} here"))?;
    let input = port.replay(body)?;
    Ok(Input { port, input })
}
