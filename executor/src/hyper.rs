//! What hyper needs of its host, on the seam: one timer and one spawner for both hosts.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::{Instant, Rt, Sleep};

/// The runtime's timers as [`hyper::rt::Timer`].
///
/// # Determinism
/// hyper's instants are those of the runtime behind one real instant, which is taken once a process. hyper only uses
/// differences.
#[derive(Clone, Debug)]
pub struct Timer(Rt);

impl Timer {
    /// Returns the timers of `rt`.
    pub fn new(rt: &Rt) -> Self {
        Timer(rt.clone())
    }
}

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Asleep(self.0.sleep(duration)))
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Asleep(self.0.sleep_until(ours(deadline))))
    }

    fn now(&self) -> std::time::Instant {
        epoch() + (self.0.now() - Instant::ZERO)
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: std::time::Instant) {
        match sleep.as_mut().downcast_mut_pin::<Asleep>() {
            Some(sleep) => sleep.get_mut().0.reset(ours(deadline)),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// The instant of the process that every runtime's start stands for.
#[expect(clippy::disallowed_methods, reason = "an origin: nothing but differences to it is used")]
fn epoch() -> std::time::Instant {
    static EPOCH: OnceLock<std::time::Instant> = OnceLock::new();
    *EPOCH.get_or_init(std::time::Instant::now)
}

fn ours(deadline: std::time::Instant) -> Instant {
    Instant::ZERO + deadline.saturating_duration_since(epoch())
}

struct Asleep(Sleep);

impl Future for Asleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl hyper::rt::Sleep for Asleep {}

/// The runtime's background tasks as [`hyper::rt::Executor`]: each is a [`Rt::daemon`].
#[derive(Clone)]
pub struct Executor(Rt);

impl Executor {
    /// Returns the background of `rt`.
    pub fn new(rt: &Rt) -> Self {
        Executor(rt.clone())
    }
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        drop(self.0.daemon("hyper", future));
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executor")
    }
}
