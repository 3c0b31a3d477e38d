//! Answers to requests that fail (model-server spec 1.2).

use executor::http::Body;
use http::{Response, StatusCode};
use serde::Serialize;

use super::reply;

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    param: Option<&'static str>,
    message: String,
    raised: bool,
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Inside<'a>,
}

#[derive(Serialize)]
struct Inside<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'static str>,
    code: u16,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, param: None, message: message.into(), raised: false }
    }

    /// The body does not have the shape of the endpoint's requests.
    pub(super) fn shape(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", message)
    }

    /// The handler looked at the request and said no.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestError", message)
    }

    /// A value was found to be wrong below the handler.
    pub(super) fn raised(message: impl Into<String>) -> Self {
        Self { raised: true, ..Self::refused(message) }
    }

    /// A name that nothing is served under.
    pub(super) fn unknown_model(name: &str) -> Self {
        let message = format!("The model `{name}` does not exist.");
        Self::new(StatusCode::NOT_FOUND, "NotFoundError", message).param("model")
    }

    /// A value that an endpoint for operators does not take.
    pub(super) fn bad_input(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidUserInput", message)
    }

    /// An adapter that is not there.
    pub(super) fn no_adapter(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFoundError", message)
    }

    /// Makes the error one that was raised.
    pub(super) fn into_raised(self) -> Self {
        Self { raised: true, ..self }
    }

    /// Something that vLLM does and this server does not.
    pub(super) fn not_simulated(what: &str) -> Self {
        let message = format!("{what} is not simulated");
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplementedError", message)
    }

    /// The engine is gone, or the handler broke.
    pub(super) fn internal() -> Self {
        let message = "Internal server error";
        Self { raised: true, ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message) }
    }

    /// A body above the server's limit.
    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!("the body is longer than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "BadRequestError", message)
    }

    /// Names the field at fault.
    pub(super) fn param(self, param: &'static str) -> Self {
        Self { param: Some(param), ..self }
    }

    /// Whether the answer passes by the layers that add headers: vLLM answers errors that its handlers raise
    /// outside of them.
    pub(super) fn is_raised(&self) -> bool {
        self.raised
    }

    /// The error as JSON: the body of an answer, or an event of a stream.
    pub(super) fn json(&self) -> Vec<u8> {
        let Self { status, kind, param, message, .. } = self;
        reply::to_json(&Envelope {
            error: Inside { message, r#type: kind, param: *param, code: status.as_u16() },
        })
    }

    pub(super) fn response(&self) -> Response<Body> {
        reply::with(self.status, "application/json", self.json())
    }
}
