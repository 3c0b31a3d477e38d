use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A signal by which the operating system asks a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`, what Ctrl-C sends.
    Interrupt,
    /// `SIGTERM`.
    Terminate,
}

impl Signal {
    const ALL: [Signal; 2] = [Signal::Interrupt, Signal::Terminate];

    fn number(self) -> i32 {
        match self {
            Signal::Interrupt => SIGINT,
            Signal::Terminate => SIGTERM,
        }
    }

    /// Returns the code with which a process ends that this signal ended: 128 and the signal's number.
    pub fn exit_code(self) -> u8 {
        128 + self.number() as u8
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
        })
    }
}

/// Notes the first [`Signal`] of the process, for code that waits for nothing: a simulation looks at it whenever
/// simulated time moves. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Catches `SIGINT` and `SIGTERM` from now on: the first is noted, a second one ends the process at once with
    /// its [`Signal::exit_code`].
    ///
    /// # Errors
    /// When the operating system lets no handler be installed.
    pub fn catch() -> io::Result<Self> {
        let interrupt = Interrupt::default();
        let again = Arc::new(AtomicBool::new(false));
        for signal in Signal::ALL {
            let number = signal.number();
            // In the order of their calls: a signal meets the end of the process before it arms it.
            flag::register_conditional_shutdown(number, signal.exit_code().into(), Arc::clone(&again))?;
            flag::register(number, Arc::clone(&again))?;
            flag::register_usize(number, Arc::clone(&interrupt.0), number as usize)?;
        }
        Ok(interrupt)
    }

    /// Notes a signal as if the process had got it.
    pub fn raise(&self, signal: Signal) {
        self.0.store(signal.number() as usize, Ordering::Relaxed);
    }

    /// Returns the signal noted, if there was one.
    #[inline]
    pub fn signal(&self) -> Option<Signal> {
        let number = self.0.load(Ordering::Relaxed);
        Signal::ALL.into_iter().find(|signal| signal.number() as usize == number)
    }
}
