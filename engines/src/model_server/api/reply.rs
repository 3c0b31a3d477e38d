//! Answers that are whole.

use executor::http::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

/// Returns an answer with a body.
pub(super) fn with(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a JSON answer with status 200.
pub(super) fn json(body: &impl Serialize) -> Response<Body> {
    with(StatusCode::OK, "application/json", to_json(body))
}

/// Returns an answer of the web framework.
pub(super) fn detail(status: StatusCode, detail: &str) -> Response<Body> {
    #[derive(Serialize)]
    struct Detail<'a> {
        detail: &'a str,
    }
    with(status, "application/json", to_json(&Detail { detail }))
}

/// Writes JSON of our own types.
pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("answers have text keys, and no serializer of theirs fails")
}
