//! How a wait ends (flow-control spec 3.4, 3.5).

use std::borrow::Cow;
use std::fmt;

/// How flow control was done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Not yet.
    NotYetFinalized,
    /// It may go on.
    Dispatched,
    /// A limit was reached, with endpoints there.
    RejectedCapacity,
    /// A limit was reached, without endpoints.
    RejectedNoEndpoints,
    /// It was not queued for another reason.
    RejectedOther,
    /// Its time ran out while it was queued.
    EvictedTTL,
    /// Its client went away while it was queued.
    EvictedContextCancelled,
    /// It left the queue for another reason.
    EvictedOther,
}

/// Prints the name, as metrics label it.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One link of the chain of reasons for which a request may not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Never queued.
    Rejected,
    /// Taken out of its queue.
    Evicted,
    /// A limit was reached.
    QueueAtCapacity,
    /// There is nobody to serve it.
    NoEndpoints,
    /// It waited as long as it may.
    TtlExpired,
    /// The client went away.
    ContextCancelled,
    /// Flow control has ended.
    NotRunning,
    /// The client's own deadline.
    DeadlineExceeded,
    /// The client's own cancelling.
    Canceled,
    /// Anything else.
    Other(Cow<'static, str>),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Rejected => "request rejected pre-queue",
            Cause::Evicted => "request evicted from queue",
            Cause::QueueAtCapacity => "queue at capacity",
            Cause::NoEndpoints => "no endpoints available",
            Cause::TtlExpired => "request TTL expired",
            Cause::ContextCancelled => "request context cancelled",
            Cause::NotRunning => "flow controller is not running",
            Cause::DeadlineExceeded => "context deadline exceeded",
            Cause::Canceled => "context canceled",
            Cause::Other(text) => text,
        })
    }
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, the outermost reason first; empty for a request that may go on.
    pub causes: Cow<'static, [Cause]>,
}

impl Ended {
    /// The request may go on.
    pub const DISPATCHED: Ended = Ended { outcome: Outcome::Dispatched, causes: Cow::Borrowed(&[]) };

    /// Returns an end with its reasons.
    pub const fn new(outcome: Outcome, causes: &'static [Cause]) -> Self {
        Ended { outcome, causes: Cow::Borrowed(causes) }
    }

    /// Returns the end of a request that is too much.
    pub(super) const fn refused(pool_is_empty: bool) -> Self {
        if pool_is_empty {
            Self::new(Outcome::RejectedNoEndpoints, &[Cause::Rejected, Cause::NoEndpoints])
        } else {
            Self::new(Outcome::RejectedCapacity, &[Cause::Rejected, Cause::QueueAtCapacity])
        }
    }

    /// Returns the end of a request that was, or was not, queued and now has to go.
    pub(super) const fn of(reason: Reason, was_queued: bool) -> Self {
        use Cause::{Canceled, ContextCancelled, Evicted, NotRunning, Rejected, TtlExpired};
        match (reason, was_queued) {
            (Reason::TimeIsUp, true) => Self::new(Outcome::EvictedTTL, &[Evicted, TtlExpired]),
            (Reason::TimeIsUp, false) => Self::new(Outcome::RejectedOther, &[Rejected, TtlExpired]),
            (Reason::ClientGone, true) => {
                Self::new(Outcome::EvictedContextCancelled, &[Evicted, ContextCancelled, Canceled])
            }
            (Reason::ClientGone, false) => {
                Self::new(Outcome::RejectedOther, &[Rejected, ContextCancelled, Canceled])
            }
            (Reason::Shutdown, true) => Self::new(Outcome::EvictedOther, &[Evicted, NotRunning]),
            (Reason::Shutdown, false) => Self::new(Outcome::RejectedOther, &[Rejected, NotRunning]),
        }
    }

    /// Returns whether `cause` is among the reasons.
    pub fn has(&self, cause: &Cause) -> bool {
        self.causes.contains(cause)
    }
}

/// The reasons as one text.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, cause) in self.causes.iter().enumerate() {
            write!(f, "{}{cause}", if i == 0 { "" } else { ": " })?;
        }
        Ok(())
    }
}

/// Why a request has to go before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its time to live, or its client's deadline, is over.
    TimeIsUp,
    /// Its client went away.
    ClientGone,
    /// Flow control ends.
    Shutdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_follows_from_its_reason_and_from_whether_the_request_was_queued() {
        for (reason, queued, outcome, text) in [
            (Reason::TimeIsUp, true, "EvictedTTL", "request evicted from queue: request TTL expired"),
            (Reason::TimeIsUp, false, "RejectedOther", "request rejected pre-queue: request TTL expired"),
            (
                Reason::ClientGone,
                true,
                "EvictedContextCancelled",
                "request evicted from queue: request context cancelled: context canceled",
            ),
            (
                Reason::Shutdown,
                true,
                "EvictedOther",
                "request evicted from queue: flow controller is not running",
            ),
            (
                Reason::Shutdown,
                false,
                "RejectedOther",
                "request rejected pre-queue: flow controller is not running",
            ),
        ] {
            let ended = Ended::of(reason, queued);
            assert_eq!((ended.outcome.to_string().as_str(), ended.to_string().as_str()), (outcome, text));
        }
        assert_eq!(Ended::refused(true).to_string(), "request rejected pre-queue: no endpoints available");
        assert_eq!(Ended::refused(false).to_string(), "request rejected pre-queue: queue at capacity");
    }
}
