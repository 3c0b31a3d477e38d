//! One end of a simulated connection.

use std::fmt;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

use super::core::Id;
use super::lane::{Lane, Outcome};
use super::ticket::{self, Park, Unpark};
use super::timer::Timer;
use super::waker;
use crate::{Class, Instant, Sleep, Why};

/// A connection: two lanes, one for each direction.
pub(super) struct Wire {
    /// Client to server.
    pub(super) up: Lane,
    /// Server to client.
    pub(super) down: Lane,
}

/// One end of a simulated connection: bytes that are written here are read at the other end.
///
/// Dropping it closes the connection. Reads and writes that have to wait are known to the simulation, as `read` and
/// `write`.
pub struct Pipe {
    id: Id,
    /// The connection's number, for reports.
    number: u64,
    wire: Rc<Wire>,
    server: bool,
    reading: Waiting,
    writing: Waiting,
}

impl Pipe {
    /// Returns the client's and the server's end of `wire`.
    pub(super) fn ends(id: Id, number: u64, wire: &Rc<Wire>) -> (Self, Self) {
        let end = |server| Pipe {
            id,
            number,
            wire: Rc::clone(wire),
            server,
            reading: Waiting::default(),
            writing: Waiting::default(),
        };
        (end(false), end(true))
    }

    fn now(&self) -> Instant {
        self.id.with(|core| core.now())
    }

    /// The lane that is read here, and the one that is written.
    fn lanes(wire: &Wire, server: bool) -> (&Lane, &Lane) {
        if server { (&wire.up, &wire.down) } else { (&wire.down, &wire.up) }
    }

    /// Writes what there is room for; waits where there is none.
    fn poll_write_all(&mut self, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let now = self.now();
            let (input, output) = Self::lanes(&self.wire, self.server);
            match output.write(now, bytes) {
                Outcome::Done(written) => {
                    if output.answers_reset() {
                        input.reset(output.round_trip(now));
                    } else if output.gives_up() != Instant::MAX {
                        // The read that waits here does not know yet how long.
                        input.wake_reader();
                    }
                    return Poll::Ready(Ok(written));
                }
                Outcome::Failed(kind) => return Poll::Ready(Err(kind.into())),
                Outcome::Wait(until) => {
                    let why = Why::about("write", self.number);
                    ready!(self.writing.poll(self.id, why, until, cx, |unpark| output.on_room(unpark)));
                }
            }
        }
    }
}

impl Read for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let now = this.now();
            let (input, output) = Self::lanes(&this.wire, this.server);
            let outcome = match output.given_up(now) {
                Some(kind) => Outcome::Failed(kind),
                None => input.read(now, buffer.remaining(), |bytes| buffer.put_slice(bytes)),
            };
            match outcome {
                Outcome::Done(_) => return Poll::Ready(Ok(())),
                Outcome::Failed(kind) => return Poll::Ready(Err(kind.into())),
                Outcome::Wait(until) => {
                    let until = until.min(output.gives_up());
                    let why = Why::about("read", this.number);
                    ready!(this.reading.poll(this.id, why, until, cx, |unpark| input.on_bytes(unpark)));
                }
            }
        }
    }
}

impl Write for Pipe {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_all(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::lanes(&self.wire, self.server).1.finish(self.now());
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_all(cx, bytes)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // After the run there is nobody to tell.
        waker::with(self.id, |core| {
            let (input, output) = Self::lanes(&self.wire, self.server);
            output.finish(core.now());
            input.abandon(core.now());
        });
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("connection", &self.number).field("server", &self.server).finish()
    }
}

/// The wait of one direction of an end: for the other end, and for the time at which what is under way is here.
#[derive(Default)]
struct Waiting {
    park: Option<Park>,
    sleep: Option<Sleep>,
}

impl Waiting {
    /// Waits until woken or until `until`. `register` takes what wakes, where the one it had is used up.
    fn poll(
        &mut self,
        id: Id,
        why: Why,
        until: Instant,
        cx: &mut Context<'_>,
        register: impl FnOnce(Unpark),
    ) -> Poll<()> {
        if until == Instant::MAX {
            self.sleep = None;
        } else {
            let sleep = match &mut self.sleep {
                Some(sleep) if sleep.deadline() == until => sleep,
                sleep => sleep
                    .insert(Sleep::sim(until, Timer::new(id, Class::Transport, until, Location::caller()))),
            };
            if Pin::new(sleep).poll(cx).is_ready() {
                self.sleep = None;
                return Poll::Ready(());
            }
        }
        let park = match &mut self.park {
            Some(park) => park,
            park => {
                let (waits, unpark) = ticket::pair(id, why, Location::caller());
                register(unpark);
                park.insert(waits)
            }
        };
        let woken = park.poll(cx).map(drop);
        if woken.is_ready() {
            self.park = None;
        }
        woken
    }
}
