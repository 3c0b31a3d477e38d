use std::time::Duration;

/// What becomes of a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Every finding but an informational one ends the run, and a task may wait only for what is registered:
    /// [`FindingKind::UntrackedWait`](crate::FindingKind::UntrackedWait) and
    /// [`FindingKind::RawWake`](crate::FindingKind::RawWake) are findings too. The default, for tests: nobody has to
    /// remember it. A [`BlockingPoll`](crate::FindingKind::BlockingPoll) alone lets the run go on, for when it is
    /// found is up to the machine.
    #[default]
    Strict,
    /// The run goes on as long as it can; the report has every finding. What a run in production has.
    Report,
    /// Only what ends a run, and panics that nobody observed, are findings.
    Off,
}

/// What the watchdog of a run does and from when on it speaks. See [`SimBuilder::watchdog`](crate::SimBuilder::watchdog).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// What becomes of a finding.
    pub policy: Policy,
    /// A poll that takes longer on the wall is a blocking one.
    pub blocking: Duration,
    /// More events than this at one instant are a livelock.
    pub livelock: u64,
    /// More events than this, through which time moved by less than 10 ps an event, are a runaway chain of instants.
    pub runaway: u64,
    /// Simulated time after which tasks that only daemons outlive are starved, see
    /// [`FindingKind::Starvation`](crate::FindingKind::Starvation).
    pub starvation: Duration,
}

impl Watchdog {
    /// Events of daemons alone without which nothing counts as starved.
    pub(crate) const STARVING_EVENTS: u64 = 10_000;

    /// A wait for more nanoseconds than this, a year, was hardly meant.
    pub(crate) const FORGOTTEN: u64 = 366 * 24 * 3600 * 1_000_000_000;
}

impl Default for Watchdog {
    /// Strict; a second (five without optimisation); 1,000,000 events; 10,000,000 events; 600 seconds.
    fn default() -> Self {
        Watchdog {
            policy: Policy::default(),
            blocking: Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 }),
            livelock: 1_000_000,
            runaway: 10_000_000,
            starvation: Duration::from_secs(600),
        }
    }
}
