//! Whether a run gets on: looked at every thousand events or so, closely once it does not seem to.

use std::time::Duration;

use super::super::{Core, State};
use crate::Instant;
use crate::sim::slot::{DAEMON, DONE, Slot};
use crate::sim::trace::Trace;
use crate::watch::{AUTOPSY_EVENTS, Autopsy, FindingKind, Outcome, Watchdog};

/// Events between two looks at whether the run gets on.
const PACE: u64 = 1024;

/// How a run gets on.
#[derive(Default)]
pub(in crate::sim::core) struct Pulse {
    /// The event after which it is looked at next.
    pub(in crate::sim::core) alarm: u64,
    /// Events before the current instant.
    pub(in crate::sim::core) instant: u64,
    /// Events and time when it was looked at last.
    looked: (u64, Instant),
    /// Events through which time hardly moved.
    crawling: u64,
    /// The last event of a task that keeps the run going, and its time.
    pub(in crate::sim::core) foreground: (u64, u64),
    /// What the open autopsy is about, and the event it ends with.
    autopsy: Option<(Outcome, u64)>,
    /// Why whoever runs the simulation gave it up.
    pub(in crate::sim::core) given_up: Option<String>,
    /// Tasks that waited for something that is not registered.
    pub(in crate::sim::core) untracked: u64,
    /// Wakes by something that is not registered.
    pub(in crate::sim::core) raw_wakes: u64,
}

impl Pulse {
    fn set_alarm(&mut self, events: u64, max_events: u64, watchdog: &Watchdog) {
        let pace = PACE.min(watchdog.livelock).min(watchdog.runaway).max(1);
        self.alarm = (events + pace).min(max_events);
    }

    /// The settings' first alarm.
    pub(in crate::sim::core) fn start(max_events: u64, watchdog: &Watchdog) -> Self {
        let mut pulse = Pulse::default();
        pulse.set_alarm(0, max_events, watchdog);
        pulse
    }
}

impl Core {
    /// Looks whether the run gets on; called when the alarm rings.
    #[cold]
    pub(in crate::sim::core) fn look(&self) -> Option<Outcome> {
        let watchdog = self.settings.watchdog;
        let (outcome, tasks, notes) = {
            let state = &mut *self.state.borrow_mut();
            if state.events >= self.settings.max_events {
                let notes = state.names();
                (Outcome::EventLimit, None, notes)
            } else {
                let found = state.lost(&watchdog, self.now(), self.world.is_some());
                state.pulse.set_alarm(state.events, self.settings.max_events, &watchdog);
                let outcome = found?;
                match state.close_autopsy() {
                    Some(autopsy) if outcome != Outcome::Starvation => {
                        let notes = autopsy.notes(|task| state.named(task));
                        (outcome, Some(autopsy.busiest()), notes)
                    }
                    _ => (outcome, None, Vec::new()),
                }
            }
        };
        match outcome {
            Outcome::EventLimit => {
                let detail = format!("more than {} events", self.settings.max_events);
                self.report_all(FindingKind::Limit, detail, Vec::new(), notes);
            }
            Outcome::Starvation => self.found_starvation(),
            _ => {
                let (kind, detail) = match outcome {
                    Outcome::Livelock => (
                        FindingKind::Livelock,
                        format!("more than {} events at one instant", watchdog.livelock),
                    ),
                    _ => (
                        FindingKind::Runaway,
                        format!("time hardly moved through more than {} events", watchdog.runaway),
                    ),
                };
                let tasks = self.reports_of(tasks.unwrap_or_default());
                self.report_all(kind, detail, tasks, notes);
            }
        }
        Some(outcome)
    }
}

impl State {
    /// Whether the run does not get on, and in what way. Tasks of a run that is `open` to the world wait for that.
    fn lost(&mut self, watchdog: &Watchdog, now: Instant, open: bool) -> Option<Outcome> {
        let events = self.events;
        let (before, then) = std::mem::replace(&mut self.pulse.looked, (events, now));
        // 10 ps an event.
        let crawls = (now - then) < Duration::from_nanos((events - before) / 100 + 1);
        self.pulse.crawling = if crawls { self.pulse.crawling + (events - before) } else { 0 };

        let suspected = if events - self.pulse.instant > watchdog.livelock {
            Some(Outcome::Livelock)
        } else if self.pulse.crawling > watchdog.runaway {
            Some(Outcome::Runaway)
        } else {
            None
        };
        match (suspected, self.pulse.autopsy) {
            (Some(outcome), None) => {
                self.open_autopsy(outcome);
            }
            (Some(outcome), Some((_, until))) if events >= until => return Some(outcome),
            (None, Some(_)) => drop(self.close_autopsy()),
            _ => {}
        }
        (!open && self.is_starved(watchdog, now)).then_some(Outcome::Starvation)
    }

    fn is_starved(&mut self, watchdog: &Watchdog, now: Instant) -> bool {
        let (event, at) = self.pulse.foreground;
        if self.events - event < Watchdog::STARVING_EVENTS
            || now - Instant::from_nanos(at) < watchdog.starvation
        {
            return false;
        }
        let slots = &self.slots;
        let awaited = |owner| slots.peek(owner).is_some_and(|slot: &Slot| !slot.has(DAEMON | DONE));
        if self.wheel.iter().any(|(_, entry)| awaited(entry.target.owner)) {
            // A timer of theirs is still to come: they sleep, and may.
            self.pulse.foreground = (self.events, now.as_nanos());
            return false;
        }
        true
    }

    fn open_autopsy(&mut self, outcome: Outcome) {
        self.pulse.autopsy = Some((outcome, self.events + AUTOPSY_EVENTS));
        let trace = self.trace.get_or_insert_with(|| Box::new(Trace::new(None)));
        trace.autopsy = Some(Autopsy::default());
    }

    fn close_autopsy(&mut self) -> Option<Autopsy> {
        self.pulse.autopsy = None;
        let autopsy = self.trace.as_mut()?.autopsy.take();
        self.trace.take_if(|trace| trace.is_idle());
        autopsy
    }
}
