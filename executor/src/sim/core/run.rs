//! The loop.

use std::future::Future;
use std::panic::Location;
use std::task::Context;

use super::{Core, Spawn, State};
use crate::live::{Moment, Next, World};
use crate::local::Locals;
use crate::sim::cell::BoxedCell;
use crate::sim::inbox::Message;
use crate::sim::slot::{ABORTED, BY_OUTSIDE, BY_TIMER, DAEMON, DONE, HANDLE, QUEUED};
use crate::sim::ticket::Tickets;
use crate::sim::trace::{Cause, Event};
use crate::sim::waker::{self, Word};
use crate::sim::wheel::Wheel;
use crate::watch::{Outcome, RunReport, replay_command};
use crate::{Class, Instant};

/// What an input is in the digest.
const INPUT: u64 = 0x696e_7075_7400_0000;

/// A task taken out of its slot for its turn.
struct Turn {
    word: Word,
    cell: BoxedCell,
    place: &'static Location<'static>,
    event: u64,
    aborted: bool,
}

impl Core {
    /// Runs `root` as the first task until all tasks but daemons have ended or nothing can go on, then drops
    /// what is left.
    pub(in crate::sim) fn run<F>(&self, place: &'static Location<'static>, root: F) -> RunReport
    where
        F: Future<Output = ()> + 'static,
    {
        let entered = waker::enter(self);
        if self.world.is_some() {
            self.inbox.wake_this_thread();
        }
        let how = Spawn { name: "root", place, class: Class::Task, daemon: false };
        let word = self.spawn(how, root);
        // Nobody joins the root: a panic of it is a finding like any other.
        self.detach(word);
        let outcome = self.events_until_end();
        if let Some(world) = &self.world {
            world.end(outcome, &self.moment());
        }
        let now = self.now();
        let (events, polls, digest, peaks) = {
            let state = self.state.borrow();
            (state.events, state.polls, state.digest.value(), state.peaks)
        };
        match outcome {
            Outcome::Deadlock => self.found_deadlock(),
            Outcome::TimeLimit | Outcome::TaskLimit => self.found_limit(outcome),
            Outcome::Starvation => {
                let why = self.state.borrow_mut().pulse.given_up.take();
                why.into_iter().for_each(|why| self.found_stall(why));
            }
            _ => {}
        }
        self.close();
        drop(entered);
        let state = &mut *self.state.borrow_mut();
        let findings = std::mem::take(&mut state.findings);
        RunReport {
            outcome,
            seed: self.settings.seed,
            events,
            polls,
            now,
            digest,
            peaks,
            untracked: state.pulse.untracked,
            raw_wakes: state.pulse.raw_wakes,
            findings,
            left_out: state.left_out,
            replay: self.settings.replay.clone().unwrap_or_else(replay_command),
        }
    }

    fn events_until_end(&self) -> Outcome {
        loop {
            if let Some(outcome) = self.execute_due() {
                return outcome;
            }
            if self.settings.interrupt.signal().is_some() {
                return Outcome::Interrupted;
            }
            if self.read_inbox() {
                continue;
            }
            let over = match &self.world {
                None => self.advance_or_end(),
                Some(world) => self.take_next(world),
            };
            if let Some(outcome) = over {
                return outcome;
            }
        }
    }

    /// Executes what is due now: an event is a poll, or the drop of an aborted future.
    fn execute_due(&self) -> Option<Outcome> {
        let mut state = self.state.borrow_mut();
        loop {
            if state.foreground == 0 {
                return Some(state.stop.unwrap_or(Outcome::Completed));
            }
            if state.stop.is_some() {
                return state.stop;
            }
            if state.events >= state.pulse.alarm && state.rings.are_occupied() {
                drop(state);
                if let Some(outcome) = self.look() {
                    return Some(outcome);
                }
                state = self.state.borrow_mut();
            }
            let mut turn = state.next_turn(self.now().as_nanos())?;
            drop(state);

            self.running.set(Some(turn.word));
            self.beat.begin(turn.event, turn.place);
            let ended = if turn.aborted {
                turn.cell.as_mut().cancel();
                true
            } else {
                turn.word.lend(|waker| turn.cell.as_mut().poll(&mut Context::from_waker(waker)).is_ready())
            };
            self.running.set(None);
            let late = self.beat.end();
            if ended || late {
                self.end_or_late(turn, ended, late);
                state = self.state.borrow_mut();
                continue;
            }

            state = self.state.borrow_mut();
            let slot = state.slots.at(turn.word.slot());
            slot.cell = Some(turn.cell);
            if slot.is_unregistered() {
                drop(state);
                self.found_unregistered(turn.word);
                state = self.state.borrow_mut();
            }
        }
    }

    /// What is rarer behind an event: its task ended, or held up the thread.
    fn end_or_late(&self, mut turn: Turn, ended: bool, late: bool) {
        if late {
            let index = turn.word.slot();
            self.state.borrow_mut().slots.at(index).cell = Some(turn.cell);
            self.found_blocking(turn.word);
            let cell = self.state.borrow_mut().slots.at(index).cell.take();
            let Some(cell) = cell else { return };
            turn.cell = cell;
        }
        if ended {
            self.end(turn);
        } else {
            self.put_back(turn);
        }
    }

    fn put_back(&self, turn: Turn) {
        let unregistered = {
            let state = &mut *self.state.borrow_mut();
            let slot = state.slots.at(turn.word.slot());
            slot.cell = Some(turn.cell);
            slot.is_unregistered()
        };
        if unregistered {
            self.found_unregistered(turn.word);
        }
    }

    fn end(&self, mut turn: Turn) {
        let joiner = turn.cell.as_mut().header_mut().joiner.take();
        let alone = {
            let state = &mut *self.state.borrow_mut();
            let slot = state.slots.at(turn.word.slot());
            slot.flags |= DONE;
            state.live -= 1;
            state.foreground -= usize::from(!slot.has(DAEMON));
            if slot.has(HANDLE) {
                slot.cell = Some(turn.cell);
                None
            } else {
                let about = slot.about();
                state.slots.release(turn.word.slot());
                Some((about, turn.cell))
            }
        };
        if let Some((about, cell)) = alone
            && self.discard(about, cell)
            && about.task == 0
        {
            self.state.borrow_mut().stop = Some(Outcome::Panicked);
        }
        if let Some(joiner) = joiner {
            self.fire(joiner, None);
        }
    }

    /// Goes on with the next timer; without one there is nothing to go on with.
    fn advance_or_end(&self) -> Option<Outcome> {
        if self.advance(self.settings.max_time) {
            return None;
        }
        let idle = self.state.borrow().wheel.len() == 0;
        Some(if idle { Outcome::Deadlock } else { Outcome::TimeLimit })
    }

    /// Does what comes next in the world outside.
    fn take_next(&self, world: &World) -> Option<Outcome> {
        match world.wait(&self.moment()) {
            Next::Time(limit) => {
                if !self.advance(limit) {
                    self.now.set(limit);
                }
                world.set_now(self.now());
                None
            }
            Next::Input(at, input) => {
                self.now.set(at);
                world.set_now(at);
                {
                    let state = &mut *self.state.borrow_mut();
                    state.events += 1;
                    state.digest.event(at.as_nanos(), INPUT);
                    state.by = BY_OUTSIDE;
                    state.pulse.instant = state.events;
                    if let Some(trace) = &mut state.trace {
                        trace.enter(Cause::Outside);
                    }
                }
                self.registered(|| input.take());
                None
            }
            Next::Over(outcome) => Some(outcome),
        }
    }

    fn moment(&self) -> Moment {
        let state = self.state.borrow();
        Moment {
            now: self.now(),
            due: state.wheel.next().map(Instant::from_nanos),
            events: state.events,
            digest: state.digest.value(),
        }
    }

    /// Moves the clock to the next timer and everything of that instant into the rings; returns whether there is
    /// one up to `limit`.
    fn advance(&self, limit: Instant) -> bool {
        let mut state = self.state.borrow_mut();
        let Some((at, first)) = state.wheel.pop(limit.as_nanos()) else { return false };
        self.now.set(Instant::from_nanos(at));
        state.rings.enter(self.now());
        state.by = BY_TIMER;
        state.pulse.instant = state.events;
        if let Some(trace) = &mut state.trace {
            trace.enter(Cause::Timer);
        }
        let mut next = Some(first);
        while let Some(entry) = next {
            state.remove_wait(entry.target.owner);
            match entry.target.waker {
                None => state.enqueue(entry.target.owner, Some(entry.class)),
                Some(waker) => {
                    drop(state);
                    self.registered(|| waker.wake());
                    state = self.state.borrow_mut();
                }
            }
            next = state.wheel.pop(at).map(|(_, entry)| entry);
        }
        true
    }

    /// Takes in what came from outside; returns whether anything did.
    fn read_inbox(&self) -> bool {
        let messages = self.inbox.take();
        let any = !messages.is_empty();
        for letter in messages {
            let message = letter.message;
            if message.is_wake() {
                self.found_foreign(&letter);
                self.state.borrow_mut().by = BY_OUTSIDE;
            }
            match message {
                Message::Wake(word) => self.registered(|| self.wake(word)),
                Message::Abort(word) => self.abort(word),
                Message::Detach(word) => self.detach(word),
                Message::Wakers(word, delta) => self.count_wakers(word, delta),
                Message::Resolve(key, state) => {
                    self.resolve_ticket(key, state);
                }
            }
        }
        any
    }

    /// Drops everything in a fixed order: foreground tasks, then daemons, each in the order of spawning, then
    /// services, connections, tickets and timers.
    fn close(&self) {
        let mut left: Vec<(bool, u32, Word)> = {
            let state = &mut *self.state.borrow_mut();
            state.closing = true;
            state.slots.words().map(|(word, slot)| (slot.has(DAEMON), slot.task, word)).collect()
        };
        left.sort_unstable_by_key(|&(daemon, task, _)| (daemon, task));
        for (.., word) in left {
            let taken = {
                let state = &mut *self.state.borrow_mut();
                let Some(slot) = state.slots.get(word) else { continue };
                slot.flags |= DONE;
                slot.cell.take().map(|cell| (slot.about(), cell))
            };
            if let Some((about, mut cell)) = taken {
                // An outcome that is there stays: `cancel` would hide a panic.
                if cell.is_running() {
                    cell.as_mut().cancel();
                }
                self.discard(about, cell);
            }
        }
        let services = self.services.take();
        drop(services);
        let roads = self.roads.take();
        drop(roads);
        let locals = self.locals.replace(Locals::default());
        drop(locals);
        let (wheel, tickets) = {
            let state = &mut *self.state.borrow_mut();
            (
                std::mem::replace(&mut state.wheel, Wheel::new()),
                std::mem::replace(&mut state.tickets, Tickets::new()),
            )
        };
        drop((tickets, wheel));
    }
}

impl State {
    /// Takes the next due task out of its slot and counts the event.
    #[inline]
    fn next_turn(&mut self, now: u64) -> Option<Turn> {
        loop {
            let (class, index) = self.rings.pop()?;
            let word = self.slots.word(index);
            let slot = self.slots.at(index);
            slot.flags &= !QUEUED;
            // Ended with a wake of itself under way.
            let Some(cell) = slot.cell.take_if(|_| slot.flags & DONE == 0) else {
                self.slots.release(index);
                continue;
            };
            let aborted = slot.has(ABORTED);
            self.events += 1;
            self.polls += u64::from(!aborted);
            self.by = slot.task;
            slot.polls = slot.polls.saturating_add(1);
            if !slot.has(DAEMON) {
                self.pulse.foreground = (self.events, now);
            }
            let place = slot.place;
            self.digest.event(now, u64::from(slot.task) << 3 | (class as u64) << 1 | u64::from(aborted));
            let task = slot.task;
            if let Some(trace) = &mut self.trace {
                let chosen = self.rings.chosen(index);
                trace.executed(Event {
                    number: self.events,
                    at: Instant::from_nanos(now),
                    task,
                    class,
                    aborted,
                    cause: Cause::Outside,
                    // Whom it went before is still due.
                    choice: chosen.map(|chosen| chosen.of_tasks(|slot| self.slots.at(slot).task)),
                    digest: self.digest.value(),
                });
            }
            return Some(Turn { word, cell, place, event: self.events, aborted });
        }
    }
}
