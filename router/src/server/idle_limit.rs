//! A response that stops for too long is broken off.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use executor::http::{Body, SendError};
use executor::{Instant, Rt, Sleep};
use http_body::{Frame, SizeHint};

/// Returns `body`, which fails once none of its frames has come for `limit` while its reader waits.
pub(super) fn limited(rt: &Rt, body: Body, limit: Duration) -> Body {
    match body {
        Body::Stream(_) => Body::stream(Limited { rt: rt.clone(), body, limit, waiting: None, timer: None }),
        whole => whole,
    }
}

struct Limited {
    rt: Rt,
    body: Body,
    limit: Duration,
    /// Since when the reader waits for the next frame.
    waiting: Option<Instant>,
    /// One for the whole body: when it fires it is set anew from the wait of that moment.
    timer: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for Limited {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.waiting = None;
            return Poll::Ready(frame);
        }
        let since = *this.waiting.get_or_insert_with(|| this.rt.now());
        loop {
            let end = since + this.limit;
            let timer = this.timer.get_or_insert_with(|| Box::pin(this.rt.sleep_until(end)));
            std::task::ready!(timer.as_mut().poll(cx));
            this.timer = None;
            if this.rt.now() >= end {
                return Poll::Ready(Some(Err(SendError::body(Stopped(this.limit)))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The error of a response that stopped.
#[derive(Debug)]
struct Stopped(Duration);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing more of the response came for {} s", self.0.as_secs())
    }
}

impl std::error::Error for Stopped {}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use executor::Sim;
    use http_body::Body as _;

    use super::*;

    /// A frame at each of these instants, then none.
    struct Timed(std::vec::IntoIter<u64>, Option<Pin<Box<Sleep>>>, Rt);

    impl http_body::Body for Timed {
        type Data = Bytes;
        type Error = SendError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
            let this = &mut *self;
            if this.1.is_none() {
                let Some(wait) = this.0.next() else { return Poll::Pending };
                this.1 = Some(Box::pin(this.2.sleep(Duration::from_secs(wait))));
            }
            let timer = this.1.as_mut().expect("set above");
            std::task::ready!(timer.as_mut().poll(cx));
            this.1 = None;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    #[test]
    fn only_a_wait_for_one_frame_counts() {
        let run = Sim::builder().build().run(|rt| async move {
            let begun = rt.now();
            let waits = vec![9, 1, 9, 9, 0, 9];
            let body = Body::stream(Timed(waits.into_iter(), None, rt.clone()));
            let mut body = limited(&rt, body, Duration::from_secs(10));
            for _ in 0..6 {
                let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
                assert!(matches!(frame, Some(Ok(_))));
            }
            // A reader that is slow itself breaks nothing off.
            rt.sleep(Duration::from_secs(60)).await;
            let stopped = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            assert!(matches!(stopped, Some(Err(_))));
            assert_eq!(rt.now() - begun, Duration::from_secs(37 + 60 + 10));
        });
        drop(run);
    }
}
