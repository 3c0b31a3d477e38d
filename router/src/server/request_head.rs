//! What the proxy does not take, as its head already tells.

use executor::http::Body;
use http::header::{HOST, TRANSFER_ENCODING};
use http::{Method, Response, request};

use super::error_response::json_error;

/// Returns the answer to a request that is refused for what its head says.
///
/// The connection's own parser has refused what is no HTTP, such as lengths that differ or a last transfer coding
/// that is not `chunked`, and drops a length beside a transfer coding. What it lets through here would reach the
/// model server as something else than the client sent: a body in a coding that the router does not undo
/// (RFC 9112 6.1), or a request for two hosts (RFC 9112 3.2).
pub(super) fn refusal(head: &request::Parts) -> Option<Response<Body>> {
    if head.method == Method::CONNECT {
        return Some(json_error(405, "MethodNotAllowed", "CONNECT is not served here"));
    }
    if head.headers.get_all(HOST).iter().count() > 1 {
        return Some(json_error(400, "BadRequest", "a request has one host header"));
    }
    let codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let codings: Vec<String> = codings
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(|coding| String::from_utf8_lossy(coding).trim().to_ascii_lowercase())
        .filter(|coding| !coding.is_empty())
        .collect();
    if codings.is_empty() || codings == ["chunked"] {
        return None;
    }
    let message =
        format!("transfer-encoding {:?} is not undone here; only \"chunked\" is", codings.join(", "));
    Some(json_error(501, "NotImplemented", &message))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn what_would_reach_the_model_server_as_something_else_is_refused() {
        for (headers, status) in [
            (&[][..], None),
            (&[("content-length", "3")], None),
            (&[("transfer-encoding", "Chunked")], None),
            (&[("transfer-encoding", "gzip, chunked")], Some(501)),
            (&[("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")], Some(501)),
            (&[("transfer-encoding", "\tidentity ,chunked")], Some(501)),
            (&[("transfer-encoding", "chunked, chunked")], Some(501)),
            (&[("host", "a")], None),
            (&[("host", "a"), ("host", "a")], Some(400)),
        ] {
            let mut request = Request::post("/v1/completions");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (head, ()) = request.body(()).expect("a request").into_parts();
            let refused = refusal(&head).map(|response| response.status().as_u16());
            assert_eq!(refused, status, "{headers:?}");
        }
    }
}
