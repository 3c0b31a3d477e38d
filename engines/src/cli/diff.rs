use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use executor::Instant;
use executor::journal::{Kind, Reader, Record};
use prost::Message;

use super::{Failure, print};
use crate::recording::{Chain, DecisionRecord, EventRecord, Step, TaskRecord};

/// How many events of a causal chain are shown.
const CHAIN: usize = 12;

/// The arguments of `lockstep diff`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct DiffArgs {
    /// A journal that `lockstep run --record` wrote
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Another one
    #[arg(value_name = "B")]
    pub b: PathBuf,
}

/// One journal of two.
struct Side {
    name: &'static str,
    reader: Reader,
    chain: Chain,
}

impl Side {
    /// Returns the next record that a comparison looks at.
    fn next(&mut self) -> Option<Record> {
        let compared = |kind| matches!(kind, Kind::Task | Kind::Event | Kind::Decision | Kind::Input);
        self.reader.by_ref().find(|record| compared(record.kind))
    }

    fn take_in(&mut self, record: &Record) {
        match record.kind {
            Kind::Task => TaskRecord::decode(&record.body).into_iter().for_each(|task| self.chain.task(task)),
            Kind::Event => {
                let event = EventRecord::decode(&record.body);
                event.into_iter().for_each(|event| self.chain.event(record.at, event));
            }
            _ => {}
        }
    }

    /// Says what the record is, and what led to it.
    fn say(&self, record: Option<&Record>, last: Option<&EventRecord>, text: &mut String) {
        let Some(Record { kind, at, body }) = record else {
            let _ = writeln!(text, "{}  the journal ends here", self.name);
            return;
        };
        let (said, event) = match kind {
            Kind::Event => match EventRecord::decode(body) {
                Some(event) => (step(*at, event, &self.chain), Some(event)),
                None => (format!("{at} an event that cannot be read"), None),
            },
            Kind::Decision => (format!("{at} {}", decision(body)), None),
            Kind::Task => match TaskRecord::decode(body) {
                Some(TaskRecord { number, name, place }) => {
                    (format!("{at} task {number} {name:?} is spawned at {place}"), None)
                }
                None => (format!("{at} a task that cannot be read"), None),
            },
            _ => (format!("{at} an input of {} bytes", body.len()), None),
        };
        let _ = writeln!(text, "{}  {said}", self.name);
        // What is no event happened in the last one.
        if let Some(event) = event.or(last.copied()) {
            for step in self.chain.behind(&event, CHAIN) {
                let _ = writeln!(text, "     behind {step}");
            }
        }
    }
}

fn step(at: Instant, event: EventRecord, chain: &Chain) -> String {
    Step { at, event, task: chain.name(event.task) }.to_string()
}

fn decision(body: &[u8]) -> String {
    match DecisionRecord::decode(body) {
        Ok(decision) => decision.to_string(),
        Err(error) => format!("a decision that cannot be read: {error}"),
    }
}

impl DiffArgs {
    /// Prints the first record in which the journals differ, on both sides, with the events that led to it.
    ///
    /// # Errors
    /// When a journal cannot be read; when they differ.
    pub fn run(&self) -> Result<(), Failure> {
        let open = |name, path: &PathBuf| {
            let reader = Reader::open(path).map_err(Failure::new)?;
            Ok::<_, Failure>(Side { name, reader, chain: Chain::default() })
        };
        let (mut a, mut b) = (open("A", &self.a)?, open("B", &self.b)?);
        let (mut number, mut last) = (0u64, None);
        loop {
            let (left, right) = (a.next(), b.next());
            number += 1;
            if left == right {
                let Some(record) = left else { break };
                last = EventRecord::decode(&record.body).filter(|_| record.kind == Kind::Event).or(last);
                a.take_in(&record);
                b.take_in(&record);
                continue;
            }
            let mut text = format!("first difference: record {number}\n");
            a.say(left.as_ref(), last.as_ref(), &mut text);
            b.say(right.as_ref(), last.as_ref(), &mut text);
            cuts(&[&a, &b], &mut text);
            print(&text)?;
            return Err(Failure::differing("the journals differ"));
        }
        let mut text = format!("no difference in {} records\n", number - 1);
        cuts(&[&a, &b], &mut text);
        print(&text)
    }
}

/// Says where journals are torn.
fn cuts(sides: &[&Side], text: &mut String) {
    for side in sides {
        if let Some(cut) = side.reader.cut() {
            let _ = writeln!(text, "{}  {cut}", side.name);
        }
    }
}
