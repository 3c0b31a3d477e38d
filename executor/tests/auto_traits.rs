//! Which public types cross threads: checked by the compiler.

use std::cell::Cell;

use executor::http::{Body, Endpoint, SendError, Transport};
use executor::sync::{Acquire, Closed, Notified, Notify, Permit, Semaphore, mpsc, oneshot, watch};
use executor::{
    Abandoned, AbortHandle, Instant, Interval, JoinError, JoinHandle, Park, Rt, RunReport, Simulation, Sleep,
    Stream, Timeout, Unpark, WallTime,
};

fn send<T: Send>() {}
fn sync<T: Sync>() {}
fn unpin<T: Unpin>() {}
fn error<T: std::error::Error + Send + Sync + 'static>() {}

/// `true` for a type that is not `Send`: the inherent constant is there only for those that are.
macro_rules! is_send {
    ($type:ty) => {{
        trait No {
            const SEND: bool = false;
        }
        impl<T> No for Is<T> {}
        struct Is<T>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "one of the two constants is not read")]
        impl<T: Send> Is<T> {
            const SEND: bool = true;
        }
        Is::<$type>::SEND
    }};
}

#[test]
fn handles_and_futures_cross_threads() {
    send::<Rt>();
    sync::<Rt>();
    send::<Transport>();
    sync::<Transport>();
    send::<Simulation>();
    send::<Sleep>();
    unpin::<Sleep>();
    send::<Interval>();
    send::<Timeout<Sleep>>();
    send::<Park>();
    unpin::<Park>();
    send::<Unpark>();
    sync::<Unpark>();
    send::<Stream>();
    send::<Instant>();
    send::<WallTime>();
    send::<RunReport>();
    send::<AbortHandle>();
    sync::<AbortHandle>();
    send::<JoinHandle<u8>>();
    unpin::<JoinHandle<Cell<u8>>>();
    assert!(!is_send!(JoinHandle<std::rc::Rc<u8>>));
    assert!(!is_send!(executor::Sim));
}

#[test]
fn channels_cross_threads_when_their_values_do() {
    send::<oneshot::Sender<Cell<u8>>>();
    send::<oneshot::Receiver<Cell<u8>>>();
    sync::<mpsc::Sender<Cell<u8>>>();
    send::<mpsc::Receiver<Cell<u8>>>();
    sync::<mpsc::UnboundedSender<Cell<u8>>>();
    send::<mpsc::Send<'static, u8>>();
    send::<mpsc::Recv<'static, u8>>();
    sync::<watch::Sender<u8>>();
    sync::<watch::Receiver<u8>>();
    send::<watch::Changed<'static, u8>>();
    sync::<Notify>();
    send::<Notified>();
    sync::<Semaphore>();
    send::<Acquire>();
    send::<Permit>();
    assert!(!is_send!(mpsc::Sender<std::rc::Rc<u8>>));
}

#[test]
fn bodies_cross_threads_and_errors_travel_in_boxes() {
    send::<Body>();
    unpin::<Body>();
    sync::<Endpoint>();
    error::<SendError>();
    error::<JoinError>();
    error::<Abandoned>();
    error::<Closed>();
    error::<executor::Elapsed>();
    error::<executor::EndpointInUse>();
    error::<executor::http::ParseEndpointError>();
    error::<mpsc::TrySendError<u8>>();
}
