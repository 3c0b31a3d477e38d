//! How long idle flows and bands stay (flow-control spec 7.2).

use std::time::Duration;

use executor::Instant;

/// Who uses a thing, and since when nobody does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lease {
    users: usize,
    idle_since: Option<Instant>,
}

impl Lease {
    /// Notes one more user.
    pub(super) fn pin(&mut self) {
        self.users += 1;
        self.idle_since = None;
    }

    /// Notes one less, as of `since`.
    pub(super) fn unpin(&mut self, since: Instant) {
        self.users = self.users.saturating_sub(1);
        if self.users == 0 {
            self.idle_since = Some(since);
        }
    }

    /// Returns whether nobody uses the thing.
    pub(super) fn is_idle(&self) -> bool {
        self.users == 0
    }

    /// Returns whether the thing has been idle for `timeout`; one that was never used is idle from the first look.
    pub(super) fn is_over(&mut self, timeout: Duration, now: Instant) -> bool {
        if self.users > 0 {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert(now);
        now - since >= timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn only_what_nobody_uses_for_long_enough_is_over() {
        let timeout = Duration::from_secs(10);
        let (mut used, mut idle, mut again) = (Lease::default(), Lease::default(), Lease::default());
        used.pin();
        for lease in [&mut idle, &mut again] {
            lease.pin();
            lease.unpin(at(0));
        }
        for now in [at(0), at(5)] {
            assert!([&mut used, &mut idle, &mut again].into_iter().all(|lease| !lease.is_over(timeout, now)));
        }
        again.pin();
        assert!(!used.is_over(timeout, at(11)) && !again.is_over(timeout, at(11)));
        assert!(idle.is_over(timeout, at(11)));
    }

    #[test]
    fn what_was_never_used_is_idle_from_the_first_look() {
        let mut fresh = Lease::default();
        assert!(!fresh.is_over(Duration::from_secs(600), at(5000)));
        assert!(!fresh.is_over(Duration::from_secs(600), at(5599)));
        assert!(fresh.is_over(Duration::from_secs(600), at(5600)));
    }
}
