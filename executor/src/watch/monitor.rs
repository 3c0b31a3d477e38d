//! Polls that hold up their thread: one thread for all simulations of the process looks at their beats.
//!
//! It only reads. A poll that never returns is told of on the standard error at once, for nobody else can.

use std::panic::Location;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The longest time between two looks.
const LONGEST: Duration = Duration::from_millis(100);
/// The CPU time of a thread is not known here.
const UNKNOWN: u64 = u64::MAX;

/// What a simulation is doing, for the monitor to see.
pub(crate) struct Beat {
    /// The event that is executed; 0 between events.
    event: AtomicU64,
    /// Where its task was spawned: null, or a `&'static Location`.
    place: AtomicPtr<Location<'static>>,
    limit: Duration,
    /// Where the system says how long the thread has run.
    statistics: Option<String>,
    /// The event that was found to take long, how long it did when last looked at, and the thread's CPU time of it.
    late: AtomicU64,
    wall: AtomicU64,
    cpu: AtomicU64,
}

/// A poll that took long.
pub(crate) struct Late {
    pub(crate) wall: Duration,
    /// `None` where the system does not say.
    pub(crate) cpu: Option<Duration>,
}

impl Beat {
    /// Returns the beat of a simulation on this thread, which the monitor watches from now on.
    pub(crate) fn watched(limit: Duration) -> Arc<Self> {
        let beat = Arc::new(Beat {
            event: AtomicU64::new(0),
            place: AtomicPtr::default(),
            limit,
            statistics: statistics(),
            late: AtomicU64::new(0),
            wall: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
        });
        if cfg!(not(miri)) {
            watch(&beat);
        }
        beat
    }

    #[inline]
    pub(crate) fn begin(&self, event: u64, place: &'static Location<'static>) {
        self.place.store(std::ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
        self.event.store(event, Ordering::Relaxed);
    }

    /// Returns whether the monitor found the event to be late.
    #[inline]
    pub(crate) fn end(&self) -> bool {
        self.event.store(0, Ordering::Relaxed);
        self.late.load(Ordering::Relaxed) != 0
    }

    /// Takes what the monitor found.
    #[cold]
    pub(crate) fn take_late(&self) -> (u64, Late) {
        let cpu = self.cpu.load(Ordering::Acquire);
        let late = Late {
            wall: Duration::from_nanos(self.wall.load(Ordering::Acquire)),
            cpu: (cpu != UNKNOWN).then(|| Duration::from_nanos(cpu)),
        };
        (self.late.swap(0, Ordering::AcqRel), late)
    }

    fn place(&self) -> Option<&'static Location<'static>> {
        // SAFETY: `begin` is the only writer, and it stores references that live as long as the process; nothing is
        // ever written through the pointer.
        unsafe { self.place.load(Ordering::Relaxed).as_ref() }
    }

    /// The time that the simulation's thread has been on a CPU.
    fn cpu_time(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.statistics.as_ref()?).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }
}

/// The file with this thread's CPU time, on Linux.
fn statistics() -> Option<String> {
    if cfg!(not(target_os = "linux")) || cfg!(miri) {
        return None;
    }
    let thread = std::fs::read_link("/proc/thread-self").ok()?;
    Some(format!("/proc/{}/schedstat", thread.display()))
}

/// What the monitor remembers of a beat between two looks.
struct Watched {
    beat: Weak<Beat>,
    event: u64,
    since: Instant,
    cpu_before: Option<u64>,
    told: bool,
}

/// The beats of the process; `None` while no monitor runs.
static WATCHED: Mutex<Option<Vec<Watched>>> = Mutex::new(None);

#[expect(clippy::disallowed_methods, reason = "the monitor looks at a run from outside of it")]
fn watch(beat: &Arc<Beat>) {
    let watched = Watched {
        beat: Arc::downgrade(beat),
        event: 0,
        since: Instant::now(),
        cpu_before: None,
        told: false,
    };
    let mut all = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(all) = &mut *all {
        all.push(watched);
        return;
    }
    // Without a monitor the run is what it is; only a blocking poll stays unseen.
    if std::thread::Builder::new().name("watchdog".to_owned()).spawn(look_until_all_are_gone).is_ok() {
        *all = Some(vec![watched]);
    }
}

#[expect(clippy::disallowed_methods, reason = "the monitor looks at a run from outside of it")]
fn look_until_all_are_gone() {
    let mut pause = Duration::from_millis(1);
    loop {
        std::thread::sleep(pause);
        let mut guard = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(all) = &mut *guard else { return };
        all.retain(|watched| watched.beat.strong_count() > 0);
        if all.is_empty() {
            *guard = None;
            return;
        }
        pause = LONGEST;
        for watched in all {
            if let Some(beat) = watched.beat.upgrade() {
                pause = pause.min(beat.limit / 4).max(Duration::from_millis(1));
                watched.look(&beat);
            }
        }
    }
}

impl Watched {
    #[expect(clippy::disallowed_methods, reason = "the monitor looks at a run from outside of it")]
    fn look(&mut self, beat: &Beat) {
        let event = beat.event.load(Ordering::Relaxed);
        if event != self.event || event == 0 {
            let cpu_before = if event == 0 { None } else { beat.cpu_time() };
            (self.event, self.since, self.cpu_before, self.told) = (event, Instant::now(), cpu_before, false);
            return;
        }
        let wall = self.since.elapsed();
        if wall < beat.limit {
            return;
        }
        let cpu = match (self.cpu_before, beat.cpu_time()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => UNKNOWN,
        };
        beat.wall.store(wall.as_nanos() as u64, Ordering::Release);
        beat.cpu.store(cpu, Ordering::Release);
        beat.late.store(event, Ordering::Release);
        if !std::mem::replace(&mut self.told, true)
            && let Some(place) = beat.place()
        {
            let cpu = (cpu != UNKNOWN).then(|| Duration::from_nanos(cpu));
            eprintln!(
                "watchdog: event {event}, the poll of a task spawned at {place}, has not returned for {wall:.1?}{}",
                describe(wall, cpu)
            );
        }
    }
}

/// Says whether a poll computes or waits.
pub(crate) fn describe(wall: Duration, cpu: Option<Duration>) -> String {
    match cpu {
        Some(cpu) if cpu < wall / 2 => format!(" ({cpu:.1?} of CPU: it waits for a lock or for the system)"),
        Some(cpu) => format!(" ({cpu:.1?} of CPU: it computes, or never ends)"),
        None => String::new(),
    }
}
