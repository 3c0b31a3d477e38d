//! Errors as an OpenAI client reads them.

use executor::http::{Body, SendError};
use http::{Response, StatusCode, header};
use serde_json::json;

use super::request_body::{IDLE, Refused};
use crate::error::{ErrorCode, InferenceError};

/// Returns the response for a request's failure: the status of its code, a JSON body, its headers.
///
/// A failure that has no status of its own, which ends an ext_proc stream, is a 500 here.
pub(crate) fn inference_error(error: &InferenceError) -> Response<Body> {
    let status = error.code.http_status().unwrap_or(500);
    let mut response = json_error(status, &error.code.to_string(), &error.to_string());
    for (name, value) in &error.headers {
        if let (Ok(name), Ok(value)) =
            (header::HeaderName::try_from(name), header::HeaderValue::try_from(value))
        {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Returns the response for an endpoint that gave none: 502 when it cannot be reached or breaks off, 504 when
/// connecting takes too long.
pub(crate) fn send_error(error: &SendError) -> Response<Body> {
    let status = if error.is_connect_timeout() { 504 } else { 502 };
    json_error(status, "UpstreamError", &format!("the model server gave no response: {error}"))
}

/// Returns the response for a body that was not taken; `limit` is its longest length.
pub(super) fn body_error(refused: &Refused, limit: usize) -> Response<Body> {
    match refused {
        Refused::TooLong => {
            json_error(413, "PayloadTooLarge", &format!("the request body is longer than {limit} bytes"))
        }
        Refused::Stalled => {
            let seconds = IDLE.as_secs();
            json_error(408, "RequestTimeout", &format!("no part of the request body came for {seconds} s"))
        }
        Refused::Broken(error) => bad_request(&format!("the request body could not be read: {error}")),
    }
}

/// Returns a 400 that says `message`.
pub(crate) fn bad_request(message: &str) -> Response<Body> {
    inference_error(&InferenceError::new(ErrorCode::BadRequest, message))
}

/// Returns `{"error":{"message","type","param","code"}}` with `status`.
pub(crate) fn json_error(status: u16, kind: &str, message: &str) -> Response<Body> {
    let body = json!({"error": {"message": message, "type": kind, "param": null, "code": status}});
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_status_headers_and_an_openai_body() {
        let error = InferenceError::new(ErrorCode::ServiceUnavailable, "no endpoint")
            .with_header("x-llm-d-request-dropped-reason", "rejected-no-endpoints");
        let response = inference_error(&error);
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["x-llm-d-request-dropped-reason"], "rejected-no-endpoints");
        let Body::Full(body) = response.into_body() else { panic!("a full body") };
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let message = "inference error: ServiceUnavailable - no endpoint";
        let expected = json!({"message": message, "type": "ServiceUnavailable", "param": null, "code": 503});
        assert_eq!(body["error"], expected);
    }
}
