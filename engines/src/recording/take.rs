//! Taking a recording of a simulation.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use executor::journal::{Checkpoint, End, Header, JournalError, Kind, Writer, WriterOptions};
use executor::{Event, EventSink, Instant, TaskStart};
use prost::Message;

use super::events::{EventRecord, TaskRecord};
use crate::report::{Decision, Observer, RequestEnd, RunEnd};

/// Events between two checkpoints.
const CHECKPOINT: u64 = 4096;

/// A decision as it stands in a journal.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DecisionRecord {
    /// The request's place in the workload.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    /// How many endpoints could have been chosen.
    #[prost(uint64, tag = "2")]
    pub candidates: u64,
    /// The engine that was chosen; empty for none.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    /// Why none was.
    #[prost(string, tag = "4")]
    pub error: String,
}

impl DecisionRecord {
    /// Returns the record of a decision.
    pub fn new(decision: &Decision<'_>) -> Self {
        let (endpoint, error) = match decision.endpoint {
            Ok(endpoint) => (endpoint.to_owned(), String::new()),
            Err(error) => (String::new(), error.to_owned()),
        };
        let candidates = decision.candidates as u64;
        DecisionRecord { request: decision.request, candidates, endpoint, error }
    }
}

impl fmt::Display for DecisionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecisionRecord { request, candidates, endpoint, error } = self;
        match endpoint.as_str() {
            "" => write!(f, "request {request} is refused: {error}"),
            endpoint => write!(f, "request {request} goes to {endpoint}, of {candidates}"),
        }
    }
}

/// Writes down what a run does, and passes on what an observer is told. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Recording(Rc<RefCell<Tape>>);

struct Tape {
    observer: Rc<RefCell<dyn Observer>>,
    writer: Option<Writer>,
    failure: Option<io::Error>,
    body: Vec<u8>,
    events: u64,
}

impl Recording {
    /// Begins a journal in `folder`.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn begin(
        folder: &Path,
        header: Header,
        observer: Rc<RefCell<dyn Observer>>,
    ) -> Result<Self, JournalError> {
        let writer = Some(Writer::create(folder, header, WriterOptions::default())?);
        let tape = Tape { observer, writer, failure: None, body: Vec::new(), events: 0 };
        Ok(Recording(Rc::new(RefCell::new(tape))))
    }

    /// Ends the journal with what the run was.
    ///
    /// # Errors
    /// The first that came of writing: the journal ends there.
    pub fn finish(&self, end: &RunEnd) -> io::Result<()> {
        let tape = &mut *self.0.borrow_mut();
        let outcome = if end.interrupted.is_some() { "interrupted" } else { "completed" };
        let body = End { events: tape.events, digest: end.digest, outcome: outcome.to_owned() };
        tape.append(Kind::End, Instant::ZERO + end.simulated, &body.encode_to_vec());
        let finished = tape.writer.take().map_or(Ok(()), Writer::finish);
        tape.failure.take().map_or(finished, Err)
    }
}

impl Tape {
    fn append(&mut self, kind: Kind, at: Instant, body: &[u8]) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.append(kind, at, body)
        {
            // The run goes on; its end says so.
            self.failure = Some(error);
            self.writer = None;
        }
    }

    fn encoded(&mut self, kind: Kind, at: Instant, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        encode(&mut body);
        self.append(kind, at, &body);
        self.body = body;
    }
}

impl EventSink for Recording {
    fn task(&mut self, task: &TaskStart) {
        self.0.borrow_mut().encoded(Kind::Task, task.at, |out| TaskRecord::encode(task, out));
    }

    fn event(&mut self, event: &Event) {
        let tape = &mut *self.0.borrow_mut();
        tape.events = event.number;
        tape.encoded(Kind::Event, event.at, |out| EventRecord::encode(event, out));
        if event.number.is_multiple_of(CHECKPOINT) {
            let checkpoint = Checkpoint { events: event.number, digest: event.digest };
            tape.append(Kind::Checkpoint, event.at, &checkpoint.encode_to_vec());
        }
    }
}

impl Observer for Recording {
    fn wants_explanations(&self) -> bool {
        self.0.borrow().observer.borrow().wants_explanations()
    }

    fn decided(&mut self, decision: &Decision<'_>) {
        let observer = {
            let tape = &mut *self.0.borrow_mut();
            tape.append(Kind::Decision, decision.at, &DecisionRecord::new(decision).encode_to_vec());
            Rc::clone(&tape.observer)
        };
        observer.borrow_mut().decided(decision);
    }

    fn tokens_followed(&mut self, gap: Duration, times: u64) {
        let observer = Rc::clone(&self.0.borrow().observer);
        observer.borrow_mut().tokens_followed(gap, times);
    }

    fn request_ended(&mut self, request: &RequestEnd<'_>) {
        let observer = Rc::clone(&self.0.borrow().observer);
        observer.borrow_mut().request_ended(request);
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}
