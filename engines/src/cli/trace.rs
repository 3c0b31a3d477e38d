use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use executor::journal::{Kind, Reader, Record};
use executor::{Cause, Instant};
use prost::Message;
use rustc_hash::FxHashMap;
use serde_json::json;

use super::{Failure, print};
use crate::recording::{DecisionRecord, EventRecord, TaskRecord};

/// The arguments of `lockstep trace`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct TraceArgs {
    /// A journal that `lockstep run --record` wrote
    #[arg(value_name = "JOURNAL")]
    pub journal: PathBuf,
    /// Write a trace that ui.perfetto.dev and chrome://tracing show: a track a task, an arrow a wake
    #[arg(long, value_name = "OUT.json")]
    pub perfetto: PathBuf,
}

/// Writes a trace in the JSON form that Perfetto and Chrome read. Unit of time there: microseconds.
struct Trace<W> {
    out: W,
    first: bool,
    /// When each event was, and whose: arrows begin there.
    events: FxHashMap<u64, (Instant, u32)>,
}

impl<W: Write> Trace<W> {
    fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Trace { out, first: true, events: FxHashMap::default() })
    }

    fn put(&mut self, entry: &serde_json::Value) -> io::Result<()> {
        let separator: &[u8] = if std::mem::take(&mut self.first) { b"\n" } else { b",\n" };
        self.out.write_all(separator)?;
        serde_json::to_writer(&mut self.out, entry).map_err(Into::into)
    }

    fn record(&mut self, Record { kind, at, body }: &Record) -> io::Result<()> {
        match kind {
            Kind::Task => match TaskRecord::decode(body) {
                Some(task) => self.task(&task),
                None => Ok(()),
            },
            Kind::Event => match EventRecord::decode(body) {
                Some(event) => self.event(*at, event),
                None => Ok(()),
            },
            Kind::Decision => match DecisionRecord::decode(body.as_slice()) {
                Ok(decision) => {
                    self.put(&json!({"ph": "i", "s": "g", "name": "decision", "pid": 1, "tid": 0,
                    "ts": micros(*at), "args": {"request": decision.request, "endpoint": decision.endpoint,
                    "candidates": decision.candidates, "error": decision.error}}))
                }
                Err(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn task(&mut self, TaskRecord { number, name, place }: &TaskRecord) -> io::Result<()> {
        self.put(&json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": number,
            "args": {"name": format!("{name} {number}"), "place": place}}))
    }

    fn event(&mut self, at: Instant, event: EventRecord) -> io::Result<()> {
        let EventRecord { number, task, aborted, cause } = event;
        if let Cause::Event(by) = cause
            && let Some(&(then, waker)) = self.events.get(&by)
        {
            self.put(
                &json!({"ph": "s", "name": "wake", "cat": "wake", "id": number, "pid": 1, "tid": waker,
                "ts": micros(then)}),
            )?;
            self.put(&json!({"ph": "f", "bp": "e", "name": "wake", "cat": "wake", "id": number, "pid": 1,
                "tid": task, "ts": micros(at)}))?;
        }
        let name = if aborted { "drop" } else { "poll" };
        // A turn takes no time of the run; a nanosecond makes it seen.
        self.put(&json!({"ph": "X", "name": name, "pid": 1, "tid": task, "ts": micros(at), "dur": 0.001,
            "args": {"event": number, "by": format!("{cause:?}")}}))?;
        self.events.insert(number, (at, task));
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}

fn micros(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e3
}

impl TraceArgs {
    /// Writes the trace.
    ///
    /// # Errors
    /// When the journal cannot be read or the file cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        let mut reader = Reader::open(&self.journal).map_err(Failure::new)?;
        let path = self.perfetto.display();
        let events = self.write(&mut reader);
        let events = events.map_err(|error| Failure::lost_output(format!("cannot write {path}: {error}")))?;
        let mut text = format!("{events} events in {path}\n");
        if let Some(cut) = reader.cut() {
            text += &format!("{cut}\n");
        }
        print(&text)
    }

    fn write(&self, reader: &mut Reader) -> io::Result<usize> {
        let mut trace = Trace::new(BufWriter::new(File::create(&self.perfetto)?))?;
        for record in reader.by_ref() {
            trace.record(&record)?;
        }
        let events = trace.events.len();
        trace.finish()?;
        Ok(events)
    }
}
