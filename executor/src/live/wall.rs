//! Time from the clock on the wall, inputs from the queue.

use std::rc::Rc;
use std::time::Duration;

use prost::Message;

use super::port::AnyPort;
use super::queue::Queue;
use super::world::{Input, Moment, Next};
use crate::journal::{Checkpoint, End, Kind, Recorder, put_varint};
use crate::{Instant, Outcome};

/// Inputs between two checkpoints.
const CHECKPOINT: u32 = 512;

/// Longest sleep: a clock that jumps, or a wake that is lost, costs no more.
const NAP: Duration = Duration::from_secs(1);

pub(super) struct Wall {
    start: std::time::Instant,
    recorder: Option<Recorder>,
    inputs_since_checkpoint: u32,
    record: Vec<u8>,
}

impl Wall {
    pub(super) fn new(recorder: Option<Recorder>) -> Self {
        let start = std::time::Instant::now();
        Wall { start, recorder, inputs_since_checkpoint: 0, record: Vec::new() }
    }

    pub(super) fn wait(
        &mut self,
        moment: &Moment,
        queue: &Queue,
        ports: impl Fn(u32) -> Option<Rc<dyn AnyPort>>,
    ) -> Next {
        let now = (Instant::ZERO + self.start.elapsed()).max(moment.now);
        if moment.is_due(now) {
            return Next::Time(now);
        }
        if self.inputs_since_checkpoint >= CHECKPOINT {
            self.inputs_since_checkpoint = 0;
            let checkpoint = Checkpoint { events: moment.events, digest: moment.digest };
            self.journal(Kind::Checkpoint, moment.now, &checkpoint.encode_to_vec());
        }
        while let Some((number, mut input)) = queue.pop() {
            let Some(port) = ports(number) else { continue };
            if self.recorder.as_ref().is_some_and(Recorder::is_recording) {
                let mut record = std::mem::take(&mut self.record);
                record.clear();
                put_varint(&mut record, u64::from(number));
                port.record(&mut *input, &mut record);
                self.journal(Kind::Input, now, &record);
                self.record = record;
                self.inputs_since_checkpoint += 1;
            }
            return Next::Input(now, Input { port, input });
        }
        self.sleep(moment, now);
        Next::Time(now)
    }

    /// Sleeps until something may be due or have come.
    fn sleep(&mut self, moment: &Moment, now: Instant) {
        let flush = self.recorder.as_ref().and_then(Recorder::due);
        let until = [moment.due, flush].into_iter().flatten().min();
        let longest = until.map_or(NAP, |until| until.since(now).min(NAP));
        if !longest.is_zero() {
            std::thread::park_timeout(longest);
        }
        if let (Some(flush), Some(recorder)) = (flush, &mut self.recorder)
            && Instant::ZERO + self.start.elapsed() >= flush
        {
            recorder.flush();
        }
    }

    pub(super) fn decided(&mut self, now: Instant, body: &[u8]) {
        self.journal(Kind::Decision, now, body);
    }

    pub(super) fn end(&mut self, outcome: Outcome, moment: &Moment) {
        let end = End { events: moment.events, digest: moment.digest, outcome: outcome.to_string() };
        self.journal(Kind::End, moment.now, &end.encode_to_vec());
        // Waits until it is on disk.
        self.recorder = None;
    }

    fn journal(&mut self, kind: Kind, at: Instant, body: &[u8]) {
        if let Some(recorder) = &mut self.recorder {
            recorder.append(kind, at, body);
        }
    }
}
