//! Tasks and events as they stand in a journal.

use executor::journal::{put_varint, take_varint};
use executor::{Cause, Event, TaskStart};

/// A task that was spawned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Where it was spawned.
    pub place: String,
}

impl TaskRecord {
    /// Returns the record of a task.
    pub fn new(task: &TaskStart) -> Self {
        TaskRecord { number: task.number, name: task.name.to_owned(), place: task.place.to_string() }
    }

    pub(super) fn encode(task: &TaskStart, out: &mut Vec<u8>) {
        put_varint(out, task.number.into());
        put_varint(out, task.name.len() as u64);
        out.extend_from_slice(task.name.as_bytes());
        out.extend_from_slice(task.place.to_string().as_bytes());
    }

    /// Reads a record; `None` for one that is none.
    pub fn decode(mut body: &[u8]) -> Option<Self> {
        let number = u32::try_from(take_varint(&mut body)?).ok()?;
        let length = usize::try_from(take_varint(&mut body)?).ok()?;
        let (name, place) = body.split_at_checked(length)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        Some(TaskRecord { number, name: text(name)?, place: text(place)? })
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its number.
    pub number: u64,
    /// Whose turn it was.
    pub task: u32,
    /// Whether the task was dropped instead of polled.
    pub aborted: bool,
    /// What made it due.
    pub cause: Cause,
}

const OUTSIDE: u64 = 0;
const TIMER: u64 = 1;

impl EventRecord {
    /// Returns the record of an event.
    pub fn new(event: &Event) -> Self {
        let &Event { number, task, aborted, cause, .. } = event;
        EventRecord { number, task, aborted, cause }
    }

    pub(super) fn encode(event: &Event, out: &mut Vec<u8>) {
        put_varint(out, event.number);
        put_varint(out, u64::from(event.task) << 1 | u64::from(event.aborted));
        put_varint(
            out,
            match event.cause {
                Cause::Outside => OUTSIDE,
                Cause::Timer => TIMER,
                // How far back, at least one.
                Cause::Event(number) => event.number - number + 1,
            },
        );
    }

    /// Reads a record; `None` for one that is none.
    pub fn decode(mut body: &[u8]) -> Option<Self> {
        let number = take_varint(&mut body)?;
        let task = take_varint(&mut body)?;
        let cause = match take_varint(&mut body)? {
            OUTSIDE => Cause::Outside,
            TIMER => Cause::Timer,
            back => Cause::Event(number.checked_sub(back - 1)?),
        };
        let (task, aborted) = (u32::try_from(task >> 1).ok()?, task & 1 == 1);
        Some(EventRecord { number, task, aborted, cause })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = (TaskRecord::decode(&bytes), EventRecord::decode(&bytes));
        }
    }
}
