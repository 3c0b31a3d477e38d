//! A request's body on its way in: collected within its limits.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use executor::Rt;
use executor::http::{Body, SendError};
use http_body::{Body as _, Frame};

/// How long the next part of a body may keep the router waiting.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// How long what is too long is still read, and thrown away, so that the client comes to read the answer.
const DISCARDING: Duration = Duration::from_secs(2);

/// Most that is allocated because a client says that it will send so much. Unit: bytes.
const ROOM: usize = 1 << 20;

/// Why a body was not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// It is longer than the limit.
    TooLong,
    /// Nothing came for [`IDLE`].
    Stalled,
    /// The client went away, or did not keep to the protocol.
    Broken(SendError),
}

/// Collects `body`, at most `limit` bytes of it. With `awaits_leave` the client sends nothing until it is asked to
/// (`expect: 100-continue`), which happens when the body is first read.
///
/// # Errors
/// [`Refused`]; of a body that is too long what comes in the next moments has been read.
pub(super) async fn collect(
    rt: &Rt,
    mut body: Body,
    limit: usize,
    awaits_leave: bool,
) -> Result<Bytes, Refused> {
    if body.size_hint().lower() > limit as u64 {
        if !awaits_leave {
            discard(rt, body).await;
        }
        return Err(Refused::TooLong);
    }
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(0);
    let (mut first, mut whole) = (Bytes::new(), BytesMut::new());
    loop {
        let frame = match rt.timeout(IDLE, next(&mut body)).await {
            Err(_) => return Err(Refused::Stalled),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(Refused::Broken(error)),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers say nothing that is forwarded.
        let Ok(chunk) = frame.into_data() else { continue };
        if first.len() + whole.len() + chunk.len() > limit {
            discard(rt, body).await;
            return Err(Refused::TooLong);
        }
        if first.is_empty() && whole.is_empty() {
            first = chunk;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(declared.min(ROOM));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

async fn discard(rt: &Rt, mut body: Body) {
    let reading = async { while let Some(Ok(_)) = next(&mut body).await {} };
    // A client that goes on sending reads the answer, or does not.
    let _ = rt.timeout(DISCARDING, reading).await;
}

async fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, SendError>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::{Context, Poll};

    use executor::{Real, Sim};

    use super::*;

    /// Yields its parts, then nothing more, or an end.
    struct Parts {
        parts: VecDeque<&'static str>,
        ends: bool,
    }

    impl http_body::Body for Parts {
        type Data = Bytes;
        type Error = SendError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
            match self.parts.pop_front() {
                Some(part) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(part.as_bytes()))))),
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    fn body(parts: &[&'static str], ends: bool) -> Body {
        Body::stream(Parts { parts: parts.iter().copied().collect(), ends })
    }

    #[test]
    fn parts_become_one() {
        let real = Real::builder().current_thread().build().expect("a runtime");
        real.run(|rt| async move {
            for (parts, whole) in [(&[][..], ""), (&["abc"], "abc"), (&["", "a", "", "bc", "def"], "abcdef")]
            {
                let collected = collect(&rt, body(parts, true), 6, false).await;
                assert_eq!(collected.expect("it fits"), whole);
            }
            let collected = collect(&rt, body(&["abc", "defg"], true), 6, false).await;
            assert!(matches!(collected, Err(Refused::TooLong)));
            let collected = collect(&rt, Body::from("abcdefg"), 6, false).await;
            assert!(matches!(collected, Err(Refused::TooLong)));
        });
    }

    #[test]
    fn a_body_that_stops_is_given_up_after_the_idle_limit() {
        let run = Sim::builder().build().run(|rt| async move {
            let begun = rt.now();
            let collected = collect(&rt, body(&["abc"], false), 6, false).await;
            assert!(matches!(collected, Err(Refused::Stalled)));
            assert_eq!(rt.now() - begun, IDLE);
            let collected = collect(&rt, body(&["abc", "defg"], false), 6, false).await;
            assert!(matches!(collected, Err(Refused::TooLong)));
            assert_eq!(rt.now() - begun, IDLE + DISCARDING, "what goes on for ever is not read for ever");
        });
        drop(run);
    }
}
