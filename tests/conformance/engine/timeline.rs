//! Form B: a script on a simulated clock.

use std::collections::VecDeque;

use engines::engine::{Next, PauseMode, RequestId};
use serde_json::{Map, Value, json};

use super::machine::Machine;
use super::script::{Mode, Op, Time, Timed};

/// Length of the sleep after a turn that executed nothing.
const POLL: f64 = 1.0;
/// Polls in a row, with nothing to come, after which the recording stopped.
const IDLE_POLLS: u32 = 3;
/// Polls since the last batch that was not empty, after which the recording stopped.
const POLLS: u32 = 40;

/// The loop of an engine process, as the real one's harness ran it.
pub(super) struct Run<'a> {
    machine: Machine,
    time: &'a Time,
    input: VecDeque<&'a Timed>,
    now: f64,
    /// When the device has run all batches submitted so far.
    device_free: f64,
    /// Ends of the batches in flight.
    ends: VecDeque<f64>,
    /// Preempted by a pause that completed after its record.
    preempted: Vec<RequestId>,
    polls: u32,
    idle_polls: u32,
    log: Vec<Value>,
}

impl<'a> Run<'a> {
    pub(super) fn new(machine: Machine, time: &'a Time, timeline: &'a [Timed]) -> Self {
        Self {
            machine,
            time,
            input: timeline.iter().collect(),
            now: 0.0,
            device_free: 0.0,
            ends: VecDeque::new(),
            preempted: Vec::new(),
            polls: 0,
            idle_polls: 0,
            log: Vec::new(),
        }
    }

    /// Runs to the end of the script; returns the log.
    pub(super) fn log(mut self) -> Result<Vec<Value>, String> {
        while self.take_input()? {
            let next = self.turn();
            if next == Next::Complete {
                self.complete();
            }
            if self.machine.engine.polls() && !self.poll() {
                break;
            }
        }
        Ok(self.log)
    }

    fn record(&mut self, event: &str, mut members: Map<String, Value>) {
        members.insert("ev".into(), json!(event));
        members.insert("t".into(), json!(self.now));
        self.log.push(Value::Object(members));
    }

    /// Takes in what has arrived, waiting for it if there is no work; returns false at the end of the script.
    fn take_input(&mut self) -> Result<bool, String> {
        while !self.machine.engine.has_work() {
            while let Some(preempted) = self.machine.engine.settle() {
                self.preempted.extend(preempted);
                self.record("pause_done", Map::new());
            }
            let Some(first) = self.input.front() else { return Ok(false) };
            let arrival = first.t;
            if arrival > self.now {
                self.record("idle", Map::new());
                self.now = arrival;
            }
            self.take_one()?;
        }
        while self.input.front().is_some_and(|timed| timed.t <= self.now) {
            self.take_one()?;
        }
        Ok(true)
    }

    fn take_one(&mut self) -> Result<(), String> {
        let Some(timed) = self.input.pop_front() else { return Ok(()) };
        self.idle_polls = 0;
        match &timed.op {
            Op::Add(add) => self.machine.add(add)?,
            Op::Abort { ids } => self.machine.abort(ids),
            Op::Pause { mode: Some(mode), clear_cache, .. } => self.pause(*mode, *clear_cache),
            Op::Resume => {
                self.machine.engine.resume();
                self.answer("resume", Map::new(), Vec::new());
                self.record("resume_done", Map::new());
            }
            Op::Reset { running } => {
                let reset = self.machine.engine.reset_prefix_cache(*running);
                self.answer("reset", Map::new(), reset.preempted);
                let ok = json!(reset.done);
                self.record("reset_done", Map::from_iter([("ok".to_owned(), ok)]));
            }
            _ => return Err("an op of the other form".into()),
        }
        Ok(())
    }

    fn pause(&mut self, mode: Mode, clear_cache: bool) {
        let mode = match mode {
            Mode::Abort => PauseMode::Abort,
            Mode::Wait => PauseMode::Wait,
            Mode::Keep => PauseMode::Keep,
        };
        let paused = self.machine.engine.pause(mode, clear_cache);
        let mut members = Map::new();
        self.machine.show_ids(&mut members, "aborted", paused.aborted.iter());
        self.answer("pause", members, paused.preempted);
        if paused.done {
            self.record("pause_done", Map::new());
        }
    }

    /// Records a call with all that were preempted since the last record of preemptions.
    fn answer(&mut self, event: &str, mut members: Map<String, Value>, preempted: Vec<RequestId>) {
        self.preempted.extend(preempted);
        let ids = std::mem::take(&mut self.preempted);
        self.machine.show_ids(&mut members, "preempted", ids.iter());
        self.record(event, members);
    }

    fn turn(&mut self) -> Next {
        let turn = self.machine.engine.turn();
        if turn.scheduled {
            let mut members = self.machine.schedule(std::mem::take(&mut self.preempted));
            let batch = self.machine.engine.newest().expect("the turn scheduled a batch");
            let mut end = self.now;
            if !batch.is_empty() {
                let start = self.now.max(self.device_free);
                let tokens: u32 = batch.rows().iter().map(|row| row.tokens).sum();
                end = start + self.time.base + self.time.per_token * f64::from(tokens);
                self.device_free = end;
                self.polls = 0;
                self.idle_polls = 0;
                members.insert("start".into(), json!(start));
                members.insert("end".into(), json!(end));
            }
            self.ends.push_back(end);
            self.record("schedule", members);
        }
        turn.next
    }

    /// Waits for the oldest batch, applies the aborts that have arrived, and completes it.
    ///
    /// The aborts stay in the input queue, where they find requests that are added before them there.
    fn complete(&mut self) {
        let end = self.ends.pop_front().expect("a batch is in flight");
        self.now = self.now.max(end);
        for timed in self.input.iter().take_while(|timed| timed.t <= self.now) {
            if let Op::Abort { ids } = &timed.op {
                self.machine.abort(ids);
            }
        }
        let (batch, mut members) = self.machine.update();
        members.insert("batch".into(), json!(batch));
        self.record("update", members);
    }

    /// Sleeps after an empty turn; returns false where the recording stopped, as nothing will ever happen again.
    fn poll(&mut self) -> bool {
        self.record("poll", Map::new());
        self.polls += 1;
        self.idle_polls += u32::from(self.input.is_empty());
        if self.idle_polls > IDLE_POLLS || self.polls > POLLS {
            self.record("stuck", Map::new());
            return false;
        }
        self.now += POLL;
        true
    }
}
