//! The world outside of a run, as its executor sees it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use super::exchanges::Exchanges;
use super::port::AnyPort;
use super::queue::Queue;
use super::replay::Recorded;
use super::wall::Wall;
use crate::{Instant, Outcome};

/// Where the root is said to be spawned: the same in a run and in its replay, for digests depend on it.
pub(super) const ROOT: &Location<'static> = Location::caller();

/// Where a run stands when nothing is due in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    /// No timer is due earlier; one may be due then.
    pub(crate) due: Option<Instant>,
    pub(crate) events: u64,
    pub(crate) digest: u64,
}

impl Moment {
    /// Whether a timer may be due at `at`.
    pub(super) fn is_due(&self, at: Instant) -> bool {
        self.due.is_some_and(|due| due <= at)
    }
}

/// What happens next.
pub(crate) enum Next {
    /// Time goes on, up to this one: timers fire, if there are any.
    Time(Instant),
    /// An input is taken. No timer is due before.
    Input(Instant, Input),
    /// Nothing happens any more.
    Over(Outcome),
}

/// An input on its way to its port.
pub(crate) struct Input {
    pub(super) port: Rc<dyn AnyPort>,
    pub(super) input: Box<dyn Any + Send>,
}

impl Input {
    pub(crate) fn take(self) {
        self.port.take(self.input);
    }
}

/// What drives a run that is not alone in the world.
pub(crate) struct World {
    source: RefCell<Source>,
    queue: Arc<Queue>,
    ports: RefCell<Vec<Rc<dyn AnyPort>>>,
    exchanges: Rc<RefCell<Exchanges>>,
    /// The time of the run, for what is said between two events.
    now: Cell<Instant>,
}

/// Where inputs and their times come from.
pub(super) enum Source {
    Wall(Wall),
    Journal(Box<Recorded>),
}

impl World {
    pub(super) fn new(source: Source, queue: Arc<Queue>, exchanges: Exchanges) -> Self {
        let exchanges = Rc::new(RefCell::new(exchanges));
        // The first port is that of answers.
        let ports = RefCell::new(vec![Exchanges::port(&exchanges)]);
        World { source: RefCell::new(source), queue, ports, exchanges, now: Cell::new(Instant::ZERO) }
    }

    pub(crate) fn wait(&self, moment: &Moment) -> Next {
        self.now.set(moment.now);
        let ports = |number: u32| self.ports.borrow().get(number as usize).cloned();
        match &mut *self.source.borrow_mut() {
            Source::Wall(wall) => wall.wait(moment, &self.queue, ports),
            Source::Journal(journal) => journal.wait(moment, ports),
        }
    }

    /// Says that time has come to `now`.
    pub(crate) fn set_now(&self, now: Instant) {
        self.now.set(now);
    }

    pub(super) fn open(&self, port: Rc<dyn AnyPort>) -> u32 {
        let mut ports = self.ports.borrow_mut();
        ports.push(port);
        ports.len() as u32 - 1
    }

    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    pub(crate) fn exchanges(&self) -> &Rc<RefCell<Exchanges>> {
        &self.exchanges
    }

    pub(super) fn decided(&self, body: &[u8]) {
        match &mut *self.source.borrow_mut() {
            Source::Wall(wall) => wall.decided(self.now.get(), body),
            Source::Journal(journal) => journal.decided(self.now.get(), body),
        }
    }

    /// Nothing is taken any more, and the run was this.
    pub(crate) fn end(&self, outcome: Outcome, moment: &Moment) {
        self.queue.close();
        match &mut *self.source.borrow_mut() {
            Source::Wall(wall) => wall.end(outcome, moment),
            Source::Journal(journal) if outcome == Outcome::Completed => journal.end(),
            Source::Journal(_) => {}
        }
    }
}
