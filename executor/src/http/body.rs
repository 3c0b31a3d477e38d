use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::SendError;

/// A body in a box, see [`Body::stream`].
pub type BoxedBody = Pin<Box<dyn http_body::Body<Data = Bytes, Error = SendError> + Send>>;

/// The body of a request or response.
///
/// Dropping it before its end tells the producer: on a connection, by closing it.
#[derive(Default)]
pub enum Body {
    /// No bytes.
    #[default]
    Empty,
    /// All bytes at once.
    Full(Bytes),
    /// Frames as they come.
    Stream(BoxedBody),
}

impl Body {
    /// Returns a body that yields the frames of `body`.
    pub fn stream<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes, Error = SendError> + Send + 'static,
    {
        Body::Stream(Box::pin(body))
    }

    /// Collects the whole body, but no more than `limit` bytes.
    ///
    /// # Errors
    /// Those of the stream, and [`SendError::is_body`] above the limit.
    pub async fn bytes(self, limit: usize) -> Result<Bytes, SendError> {
        use http_body_util::{BodyExt, LengthLimitError, Limited};
        if let Body::Full(bytes) = &self
            && bytes.len() <= limit
        {
            return Ok(bytes.clone());
        }
        match Limited::new(self, limit).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) => Err(match error.downcast::<SendError>() {
                Ok(error) => *error,
                Err(error) if error.is::<LengthLimitError>() => {
                    SendError::body(format!("the body is longer than {limit} bytes"))
                }
                Err(error) => SendError::body(error),
            }),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        match self.get_mut() {
            Body::Empty => Poll::Ready(None),
            body @ Body::Full(_) => {
                let Body::Full(bytes) = std::mem::take(body) else { return Poll::Ready(None) };
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Body::Stream(stream) => stream.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Full(bytes) => bytes.is_empty(),
            Body::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Stream(stream) => stream.size_hint(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::Full(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Body::Full(text.into())
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Body::Full(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body::Full(bytes.into())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Empty => f.write_str("Empty"),
            Body::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Body::Stream(_) => f.write_str("Stream"),
        }
    }
}
