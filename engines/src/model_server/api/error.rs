//! Answers to requests that fail (model-server spec 1.2).

use std::borrow::Cow;

use executor::http::Body;
use http::{Response, StatusCode};
use serde::Serialize;

use super::release::Release;
use super::reply;

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    param: Option<&'static str>,
    /// The place at fault, and the first release that names it.
    field: Option<(Release, Cow<'static, str>)>,
    message: String,
    /// What is a fault of the body's shape to releases before 0.27 is one of its values from there on.
    checked: bool,
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
    param: Option<&'a str>,
    code: u16,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            param: None,
            field: None,
            message: message.into(),
            checked: false,
            raised: false,
        }
    }

    /// The body does not have the shape of the endpoint's requests.
    pub(super) fn shape(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", message)
    }

    /// The server's own look at a body found `param` to be wrong; it is named from 0.27 on.
    pub(super) fn checked(param: &'static str, message: impl Into<String>) -> Self {
        Self { checked: true, ..Self::shape(message) }.field(param)
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

    /// An endpoint that is closed as the server was started.
    pub(super) fn closed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "PermissionDeniedError", message)
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

    /// Names the place at fault, as releases from 0.27 on do; earlier ones are silent about it.
    pub(super) fn field(self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field_from(Release::V27, field)
    }

    /// Names the place at fault, as releases from `first` on do.
    pub(super) fn field_from(self, first: Release, field: impl Into<Cow<'static, str>>) -> Self {
        Self { field: Some((first, field.into())), ..self }
    }

    /// Whether the answer passes by the layers that add headers: vLLM answers errors that its handlers raise
    /// outside of them; from 0.27 on only those that it did not expect.
    pub(super) fn is_bare(&self, release: Release) -> bool {
        self.raised && (release < Release::V27 || self.status == StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Whether the error was raised by a handler.
    pub(super) fn is_raised(&self) -> bool {
        self.raised
    }

    /// The error as JSON: the body of an answer, or an event of a stream.
    pub(super) fn json(&self, release: Release) -> Vec<u8> {
        let Self { status, kind, param, field, message, .. } = self;
        let named = field.as_ref().filter(|(first, _)| release >= *first);
        let param = named.map(|(_, field)| &**field).or(*param);
        let kind = if self.checked && release >= Release::V27 { "BadRequestError" } else { kind };
        reply::to_json(&Envelope { error: Inside { message, r#type: kind, param, code: status.as_u16() } })
    }

    pub(super) fn response(&self, release: Release) -> Response<Body> {
        reply::with(self.status, "application/json", self.json(release))
    }
}
