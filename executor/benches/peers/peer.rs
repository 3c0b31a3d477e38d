//! The executors that are compared, behind one interface.

use std::future::Future;
use std::time::Duration;

use executor::{Policy, Rt, Sim, Watchdog};

use crate::measure::cpu_ns;

pub(crate) trait Peer: Clone + Send + 'static {
    type Join: Future + Send;
    type Sleep: Future<Output = ()> + Send;

    /// Runs to the end and returns the CPU time of the run.
    fn run<F: Future<Output = ()> + 'static>(root: impl FnOnce(Self) -> F + 'static) -> u64;
    /// The same where tasks need not be `Send`.
    fn run_local<F: Future<Output = ()> + 'static>(root: impl FnOnce(Self) -> F + 'static) -> u64;
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join;
    fn spawn_local(&self, future: impl Future<Output = ()> + 'static) -> Self::Join;
    fn sleep(&self, duration: Duration) -> Self::Sleep;
    fn abort(join: &Self::Join);
}

/// Returns the usual watchdog, but for what these loops do on purpose: millions of events at one instant, and waits that
/// nobody registers.
pub(crate) fn watchdog() -> Watchdog {
    Watchdog { policy: Policy::Report, livelock: u64::MAX, runaway: u64::MAX, ..Watchdog::default() }
}

impl Peer for Rt {
    type Join = executor::JoinHandle<()>;
    type Sleep = executor::Sleep;

    fn run<F: Future<Output = ()> + 'static>(root: impl FnOnce(Self) -> F + 'static) -> u64 {
        let sim = Sim::builder().seed(1).watchdog(watchdog()).build();
        let start = cpu_ns();
        let run = sim.run(root);
        let spent = cpu_ns() - start;
        assert!(run.output.is_some(), "{}", run.report);
        spent
    }

    fn run_local<F: Future<Output = ()> + 'static>(root: impl FnOnce(Self) -> F + 'static) -> u64 {
        Self::run(root)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join {
        Rt::spawn(self, "bench", future)
    }

    fn spawn_local(&self, future: impl Future<Output = ()> + 'static) -> Self::Join {
        Rt::spawn_local(self, "bench", future)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        Rt::sleep(self, duration)
    }

    fn abort(join: &Self::Join) {
        join.abort();
    }
}

#[derive(Clone)]
pub(crate) struct Tokio;

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

impl Peer for Tokio {
    type Join = tokio::task::JoinHandle<()>;
    type Sleep = tokio::time::Sleep;

    fn run<F: Future<Output = ()> + 'static>(root: impl FnOnce(Self) -> F + 'static) -> u64 {
        let runtime = paused();
        let start = cpu_ns();
        runtime.block_on(root(Tokio));
        cpu_ns() - start
    }

    fn run_local<F: Future<Output = ()> + 'static>(root: impl FnOnce(Self) -> F + 'static) -> u64 {
        let runtime = paused();
        let local = tokio::task::LocalSet::new();
        let start = cpu_ns();
        local.block_on(&runtime, root(Tokio));
        cpu_ns() - start
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join {
        tokio::spawn(future)
    }

    fn spawn_local(&self, future: impl Future<Output = ()> + 'static) -> Self::Join {
        tokio::task::spawn_local(future)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn abort(join: &Self::Join) {
        join.abort();
    }
}
