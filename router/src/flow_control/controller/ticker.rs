//! What happens by the clock alone: dispatch ticks, sweeps, collection and expiry (flow-control spec 6.1, 16).
//!
//! A tick that can change nothing is left out: while nothing waits and no policy remembers anything, the only effect of a
//! tick is to look the pool up again when the last look is too old, so the ticker sleeps until the first tick that does.
//! For who arrives at the very instant of a tick that was left out, that tick is over.

use std::pin::pin;
use std::rc::Weak;
use std::time::Duration;

use executor::{Class, Instant, Rt};
use futures::future::select;

use super::Shared;

/// Time between two dispatch ticks.
const TICK: Duration = Duration::from_millis(1);

/// Works until the controller is gone or shut down.
pub(super) async fn run(shared: Weak<Shared>, rt: Rt) {
    loop {
        let (alarm, sleep) = {
            let Some(shared) = shared.upgrade() else { return };
            if shared.processor.borrow().is_shut_down() {
                return;
            }
            let wakes = next(&shared);
            shared.wakes.set(wakes);
            let expires = shared.processor.borrow().next_deadline();
            // Expiry is for the one that waits, like its own timer; all else looks at what an instant has brought.
            let class = if expires == Some(wakes) { Class::Task } else { Class::Ticker };
            (shared.alarm.notified(), rt.sleep_until_in(class, wakes))
        };
        let sleep = pin!(sleep);
        select(sleep, pin!(alarm)).await;
        let Some(shared) = shared.upgrade() else { return };
        act(&shared, rt.now());
    }
}

/// Returns when the next thing is due.
pub(super) fn next(shared: &Shared) -> Instant {
    let processor = shared.processor.borrow();
    let now = shared.rt.now();
    if processor.goes_on() {
        return now;
    }
    let after = |period: Duration| next_multiple(shared.started, period, now);
    let collect = after(shared.settings.registry.flow_gc_timeout);
    let sweep = if processor.has_zombies() { after(shared.sweep_interval()) } else { Instant::MAX };
    let tick = match processor.pool.expires() {
        // The first tick at which the pool is looked up again.
        Some(expires) if shared.elides_ticks && processor.is_quiet() => {
            next_multiple(shared.started, TICK, expires - Duration::from_nanos(1)).max(after(TICK))
        }
        _ => after(TICK),
    };
    let expire = processor.next_deadline().unwrap_or(Instant::MAX);
    collect.min(sweep).min(tick).min(expire)
}

/// Returns the first multiple of `period` since `start` that is later than `now`.
fn next_multiple(start: Instant, period: Duration, now: Instant) -> Instant {
    let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
    let passed = u64::try_from((now - start).as_nanos()).unwrap_or(u64::MAX) / period;
    start + Duration::from_nanos(passed.saturating_add(1).saturating_mul(period))
}

/// Does what is due at `now`, in the order: expiry, collection, sweep, tick.
fn act(shared: &Shared, now: Instant) {
    let due = shared.wakes.get();
    // Woken early by an arrival: there is only a new time to sleep until.
    if now < due {
        return;
    }
    // On a host whose timers are late everything that fell due since then is done once.
    let is_due = |period| next_multiple(shared.started, period, due - Duration::from_nanos(1)) <= now;
    let mut processor = shared.processor.borrow_mut();
    processor.expire(now);
    if is_due(shared.settings.registry.flow_gc_timeout) {
        processor.collect(now);
    }
    if is_due(shared.sweep_interval()) {
        processor.sweep();
    }
    // The sensible form goes on while it can; each request that went acts before the next one goes.
    if is_due(TICK) || processor.goes_on() {
        processor.cycle(now);
    }
}
