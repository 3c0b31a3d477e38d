//! One direction of a simulated connection: the bytes under way, and when they are there.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Duration;

use super::ticket::Unpark;
use crate::{Instant, Stream};

/// How many bytes may be under way or unread; a writer waits for room.
const CAPACITY: usize = 64 << 10;

/// What a rate delivers at a time. Unit: bytes.
const SEGMENT: usize = 1460;

/// How long a server repeats what nobody acknowledges before it gives the connection up: Linux with its default of
/// 15 repetitions.
pub(super) const REPEATS: Duration = Duration::from_millis(924_600);

/// What came of a read or a write.
pub(super) enum Outcome {
    /// So many bytes; a read of none is the end.
    Done(usize),
    Failed(ErrorKind),
    /// Nothing can be done before the other end does something, or before this instant.
    Wait(Instant),
}

/// How fast a direction delivers.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) latency: Duration,
    /// Added to the latency of each write, drawn uniformly up to this.
    pub(super) jitter: Duration,
    /// Draws jitter.
    pub(super) stream: Option<Stream>,
    /// Unit: bytes a second.
    pub(super) bandwidth: Option<u64>,
    /// How long the writer waits for somebody who acknowledges nothing.
    pub(super) patience: Duration,
    /// Whether the writer asks whether somebody is there while there is nothing to write.
    pub(super) probes: bool,
}

/// One direction. One end writes, the other reads.
pub(super) struct Lane(RefCell<State>);

struct State {
    bytes: Vec<u8>,
    /// Bytes at the front that were read.
    read: usize,
    /// When the unread bytes arrive, in order: instant and number.
    arrivals: VecDeque<(Instant, usize)>,
    shape: Shape,
    /// A reader that takes no more than so many bytes a second, until an instant.
    slow: Option<(u64, Instant)>,
    /// Nothing arrives before this.
    hole: Option<Instant>,
    /// When the sender is done with what was written.
    sent: Instant,
    /// When the last of it arrives.
    last: Instant,
    /// What the reader finds behind the bytes, and from when on.
    end: Option<(Instant, End)>,
    /// What the writer finds, and from when on.
    broken: Option<(Instant, ErrorKind)>,
    /// When the writer gives up what it sent into a black hole.
    gives_up: Instant,
    /// The other end is gone without a word: whoever writes is told so, a round trip later.
    half_open: bool,
    /// Nothing that is written leaves any more.
    mute: bool,
    reader: Option<Unpark>,
    writer: Option<Unpark>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// In order, behind the last byte.
    Finished,
    /// At once, whatever was under way.
    Reset,
}

impl Lane {
    pub(super) fn new(shape: Shape) -> Self {
        Lane(RefCell::new(State {
            bytes: Vec::new(),
            read: 0,
            arrivals: VecDeque::new(),
            shape,
            slow: None,
            hole: None,
            sent: Instant::ZERO,
            last: Instant::ZERO,
            end: None,
            broken: None,
            gives_up: Instant::MAX,
            half_open: false,
            mute: false,
            reader: None,
            writer: None,
        }))
    }

    /// Reads at most `most` bytes that have arrived.
    pub(super) fn read(&self, now: Instant, most: usize, take: impl FnOnce(&[u8])) -> Outcome {
        let mut state = self.0.borrow_mut();
        if let Some((at, End::Reset)) = state.end
            && at <= now
        {
            return Outcome::Failed(ErrorKind::ConnectionReset);
        }
        let count = state.take_arrived(now, most);
        if count > 0 {
            let from = state.read;
            take(&state.bytes[from..from + count]);
            state.read += count;
            if state.read == state.bytes.len() {
                state.bytes.clear();
                state.read = 0;
            }
            let writer = state.writer.take();
            drop(state);
            wake(writer);
            return Outcome::Done(count);
        }
        let next = state.arrivals.front().map_or(Instant::MAX, |(at, _)| *at);
        match state.end {
            Some((at, End::Finished)) if at <= now && state.arrivals.is_empty() => Outcome::Done(0),
            Some((at, End::Finished)) if state.arrivals.is_empty() => Outcome::Wait(at),
            Some((at, End::Reset)) => Outcome::Wait(at.min(next)),
            _ => Outcome::Wait(next),
        }
    }

    /// Writes as many of `bytes` as there is room for.
    pub(super) fn write(&self, now: Instant, bytes: &[io::IoSlice<'_>]) -> Outcome {
        let mut state = self.0.borrow_mut();
        if let Some((at, kind)) = state.broken {
            if at <= now {
                return Outcome::Failed(kind);
            }
            // It goes to an end that does not exist any more.
            return Outcome::Done(bytes.iter().map(|part| part.len()).sum());
        }
        if state.gives_up <= now {
            return Outcome::Failed(ErrorKind::TimedOut);
        }
        if state.half_open {
            return Outcome::Done(bytes.iter().map(|part| part.len()).sum());
        }
        let mut room = CAPACITY.saturating_sub(state.bytes.len() - state.read);
        if room == 0 {
            return Outcome::Wait(state.gives_up);
        }
        let mut written = 0;
        for part in bytes {
            let part = &part[..part.len().min(room)];
            state.bytes.extend_from_slice(part);
            room -= part.len();
            written += part.len();
        }
        if written > 0 {
            state.send(now, written);
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Outcome::Done(written)
    }

    /// Ends the lane in order, as its writer does.
    pub(super) fn finish(&self, now: Instant) {
        let mut state = self.0.borrow_mut();
        if state.mute || state.end.is_some() {
            return;
        }
        let at = state.arrival(now, 0);
        state.end = Some((at, End::Finished));
        state.broken.get_or_insert((now, ErrorKind::BrokenPipe));
        let woken = [state.reader.take(), state.writer.take()];
        drop(state);
        woken.into_iter().for_each(wake);
    }

    /// Has nobody read any more, as its reader does. The writer learns of it when word of it can be there.
    pub(super) fn abandon(&self, now: Instant) {
        let mut state = self.0.borrow_mut();
        state.bytes = Vec::new();
        state.read = 0;
        state.arrivals.clear();
        if state.half_open || state.hole.is_some_and(|until| until > now) {
            return;
        }
        let at = now + state.shape.latency;
        state.broken.get_or_insert((at, ErrorKind::BrokenPipe));
        let writer = state.writer.take();
        drop(state);
        wake(writer);
    }

    /// Breaks the lane off for both its ends at `at`.
    pub(super) fn reset(&self, at: Instant) {
        let mut state = self.0.borrow_mut();
        if !matches!(state.end, Some((before, End::Reset)) if before <= at) {
            state.end = Some((at, End::Reset));
        }
        state.broken = Some((at, ErrorKind::ConnectionReset));
        let woken = [state.reader.take(), state.writer.take()];
        drop(state);
        woken.into_iter().for_each(wake);
    }

    /// Has the end that reads here vanish without a word: it is told nothing but that it is gone.
    pub(super) fn lose_reader(&self, now: Instant) {
        let mut state = self.0.borrow_mut();
        state.half_open = true;
        state.end = Some((now, End::Reset));
        let woken = [state.reader.take(), state.writer.take()];
        drop(state);
        woken.into_iter().for_each(wake);
    }

    /// Has the end that writes here vanish without a word: what is under way still arrives, nothing behind it.
    pub(super) fn lose_writer(&self, now: Instant) {
        let mut state = self.0.borrow_mut();
        state.mute = true;
        state.broken = Some((now, ErrorKind::ConnectionReset));
        let writer = state.writer.take();
        drop(state);
        wake(writer);
    }

    /// Delivers nothing before `until`: what is sent meanwhile, and what is under way.
    pub(super) fn swallow(&self, now: Instant, until: Instant) {
        let mut state = self.0.borrow_mut();
        state.hole = Some(until);
        let arrives = state.behind_hole(until);
        for (at, _) in &mut state.arrivals {
            if *at > now {
                *at = arrives.max(*at);
            }
        }
        if let Some((at, _)) = &mut state.end
            && *at > now
        {
            *at = arrives.max(*at);
        }
        let under_way = state.last > now;
        if under_way {
            state.last = state.last.max(arrives);
        }
        if under_way || state.shape.probes {
            state.lost(now, until);
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }

    /// Has the reader take no more than `rate` bytes a second of what is sent before `until`.
    pub(super) fn slow_down(&self, rate: u64, until: Instant) {
        self.0.borrow_mut().slow = Some((rate, until));
    }

    /// Returns whether a write was answered by a reset: the other end does not know the connection.
    pub(super) fn answers_reset(&self) -> bool {
        self.0.borrow().half_open
    }

    /// Returns when the answer to what is sent now is there.
    pub(super) fn round_trip(&self, now: Instant) -> Instant {
        now + self.0.borrow().shape.latency * 2
    }

    /// Returns when the writer gives the connection up.
    pub(super) fn gives_up(&self) -> Instant {
        self.0.borrow().gives_up
    }

    /// Returns how the writer's giving up shows at its own end.
    pub(super) fn given_up(&self, now: Instant) -> Option<ErrorKind> {
        (self.gives_up() <= now).then_some(ErrorKind::TimedOut)
    }

    pub(super) fn wake_reader(&self) {
        let reader = self.0.borrow_mut().reader.take();
        wake(reader);
    }

    /// Keeps what wakes the reader.
    pub(super) fn on_bytes(&self, unpark: Unpark) {
        let before = self.0.borrow_mut().reader.replace(unpark);
        drop(before);
    }

    /// Keeps what wakes the writer.
    pub(super) fn on_room(&self, unpark: Unpark) {
        let before = self.0.borrow_mut().writer.replace(unpark);
        drop(before);
    }
}

impl State {
    /// Takes at most `most` of the bytes that have arrived off the arrivals; returns their number.
    fn take_arrived(&mut self, now: Instant, most: usize) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some((at, count)) = self.arrivals.front_mut()
            && *at <= now
        {
            let some = (*count).min(most - taken);
            taken += some;
            *count -= some;
            if *count == 0 {
                self.arrivals.pop_front();
            }
        }
        taken
    }

    /// Notes when the last `count` bytes arrive.
    fn send(&mut self, now: Instant, count: usize) {
        let whole = self.rate(now).map_or(count, |_| SEGMENT);
        let mut left = count;
        while left > 0 {
            let some = left.min(whole);
            left -= some;
            let at = self.arrival(now, some);
            match self.arrivals.back_mut() {
                Some((last, count)) if *last == at => *count += some,
                _ => self.arrivals.push_back((at, some)),
            }
        }
    }

    fn rate(&self, now: Instant) -> Option<u64> {
        let slow = self.slow.filter(|(_, until)| now < *until).map(|(rate, _)| rate);
        self.shape.bandwidth.into_iter().chain(slow).min()
    }

    /// Returns when `count` bytes arrive that are sent now, behind all before them.
    fn arrival(&mut self, now: Instant, count: usize) -> Instant {
        let mut at = now;
        if let Some(rate) = self.rate(now) {
            let nanos = u128::from(count as u64) * 1_000_000_000 / u128::from(rate.max(1));
            self.sent = self.sent.max(now) + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            at = self.sent;
        }
        at += self.shape.latency;
        if let Some(stream) = &mut self.shape.stream {
            at += self.shape.jitter.mul_f64(stream.unit());
        }
        if let Some(until) = self.hole
            && until > now
        {
            at = at.max(self.behind_hole(until));
            self.lost(now, until);
        }
        self.last = self.last.max(at);
        self.last
    }

    /// Returns when what a black hole took arrives, for its sender repeats it.
    fn behind_hole(&self, until: Instant) -> Instant {
        if until == Instant::MAX { until } else { until + self.shape.latency }
    }

    /// Notes that something was sent at `now` that nobody acknowledges before `until`.
    fn lost(&mut self, now: Instant, until: Instant) {
        let gives_up = now + self.shape.patience;
        if gives_up < until {
            self.gives_up = self.gives_up.min(gives_up);
        }
    }
}

fn wake(unpark: Option<Unpark>) {
    if let Some(unpark) = unpark {
        unpark.unpark(0);
    }
}

#[cfg(test)]
mod tests;
