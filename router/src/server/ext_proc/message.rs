use bytes::Bytes;

use crate::request_control::Metadata;

/// A header as a proxy sends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// Name, in the case in which it came.
    pub key: String,
    /// Value as text.
    pub value: String,
    /// Value as bytes; where it is not empty it counts, not the text.
    pub raw_value: Bytes,
}

impl Field {
    /// Returns the value that counts; bytes that are not UTF-8 read as replacement characters.
    pub(super) fn text(&self) -> String {
        match self.raw_value.is_empty() {
            true => self.value.clone(),
            false => String::from_utf8_lossy(&self.raw_value).into_owned(),
        }
    }
}

/// What a proxy tells of a request or its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request's head.
    RequestHeaders {
        /// Pseudo headers are among them.
        headers: Vec<Field>,
        /// Whether there is no body.
        end_of_stream: bool,
    },
    /// A piece of the request's body.
    RequestBody {
        /// May be empty.
        chunk: Bytes,
        /// Whether it is the last.
        end_of_stream: bool,
    },
    /// The request's trailers.
    RequestTrailers,
    /// The response's head.
    ResponseHeaders {
        /// Pseudo headers are among them.
        headers: Vec<Field>,
    },
    /// A piece of the response's body.
    ResponseBody {
        /// May be empty.
        chunk: Bytes,
        /// Whether it is the last.
        end_of_stream: bool,
    },
    /// The response's trailers.
    ResponseTrailers,
}

/// A message of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it tells.
    pub event: Event,
    /// What the proxy's filters attached to it.
    pub metadata: Metadata,
}

/// What a proxy is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Set these headers on the request and choose its route anew.
    RequestHeaders(Vec<(String, String)>),
    /// Send this piece of the request's body in place of what came.
    RequestBody {
        /// May be empty.
        chunk: Bytes,
        /// Whether it is the last.
        end_of_stream: bool,
    },
    /// Set these headers on the response.
    ResponseHeaders(Vec<(String, String)>),
    /// Send this piece of the response's body in place of what came.
    ResponseBody {
        /// May be empty.
        chunk: Bytes,
        /// Whether it is the last.
        end_of_stream: bool,
    },
    /// Go on with the request's trailers.
    RequestTrailers,
    /// Go on with the response's trailers.
    ResponseTrailers,
    /// Answer the client with this and let the request go.
    Immediate {
        /// HTTP status.
        status: u16,
        /// Headers to set.
        headers: Vec<(String, String)>,
        /// Body.
        body: String,
    },
}

/// An answer with what is attached to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// What to do.
    pub answer: Answer,
    /// Metadata for the proxy's filters.
    pub dynamic_metadata: Metadata,
}

impl From<Answer> for Outgoing {
    fn from(answer: Answer) -> Self {
        Outgoing { answer, dynamic_metadata: Metadata::new() }
    }
}

/// What a message is answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Answers in order; none while more is needed to give one.
    pub outgoing: Vec<Outgoing>,
    /// Whether the stream ends behind them.
    pub closes: bool,
}

impl Answers {
    pub(super) fn one(answer: impl Into<Outgoing>) -> Self {
        Answers { outgoing: vec![answer.into()], closes: false }
    }
}
