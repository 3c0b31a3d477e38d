//! Headers on their way through the proxy.

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request;

use crate::director::headers::is_system_owned;
use crate::headers::Headers;

/// Headers that concern one connection, not the message (RFC 9110 7.6.1), beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Returns the request's headers as the director sees them: lower-case, with the pseudo headers of HTTP/2,
/// the last of several values. A value that is not UTF-8 is read with replacement characters; the model server
/// gets its bytes.
pub(crate) fn for_director(head: &request::Parts) -> Headers {
    let mut headers = Headers::new();
    headers.insert(":method", head.method.as_str());
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    headers.insert(":path", path);
    for (name, value) in &head.headers {
        headers.insert(name.as_str(), String::from_utf8_lossy(value.as_bytes()));
    }
    headers
}

/// Removes what concerns the connection that a message came over.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Turns the headers of a client's request into those of the request to a model server: `decided`, as the
/// director left them, over the client's own.
///
/// A header that the client sent several times keeps all its values unless a plugin changed it. One that a
/// plugin removed still goes out, as it does upstream (configuration spec 9.6).
pub(crate) fn for_model_server(headers: &mut HeaderMap, decided: &Headers) {
    strip_hop_by_hop(headers);
    headers.remove(HOST);
    let owned: Vec<HeaderName> =
        headers.keys().filter(|name| is_system_owned(name.as_str())).cloned().collect();
    owned.iter().for_each(|name| drop(headers.remove(name)));
    apply(headers, decided);
}

/// Sets the headers that plugins changed or added.
pub(crate) fn apply(headers: &mut HeaderMap, decided: &Headers) {
    for (name, value) in decided.iter() {
        let unchanged = headers.get_all(name).iter().next_back().is_some_and(|old| old == value);
        if name.starts_with(':') || unchanged || is_system_owned(name) {
            continue;
        }
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
            && !HOP_BY_HOP.contains(&name)
            && name != HOST
            && !is_lossy_copy(headers, &name, &value)
        {
            headers.insert(name, value);
        }
    }
}

/// Returns whether `value` is what [`for_director`] made of bytes that are not UTF-8: the bytes stay.
fn is_lossy_copy(headers: &HeaderMap, name: &HeaderName, value: &HeaderValue) -> bool {
    headers
        .get_all(name)
        .iter()
        .next_back()
        .is_some_and(|old| old.to_str().is_err() && *String::from_utf8_lossy(old.as_bytes()) == *value)
}

/// Sets the length of a body whose bytes are known.
pub(crate) fn set_length(headers: &mut HeaderMap, length: usize) {
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn map(entries: &[(&'static str, &'static str)]) -> HeaderMap {
        entries.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn what_concerns_a_connection_ends_there() {
        let mut headers =
            map(&[("connection", "x-one, Close"), ("x-one", "1"), ("te", "trailers"), ("x-two", "2")]);
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers, map(&[("x-two", "2")]));
    }

    #[test]
    fn a_clients_control_headers_do_not_reach_the_model_server() {
        let mut headers =
            map(&[("x-gateway-destination-endpoint", "10.0.0.1:1"), ("host", "a"), ("x-custom", "c")]);
        let decided =
            [("x-gateway-destination-endpoint", "10.0.0.2:2"), ("x-custom", "c"), ("x-session", "s")];
        for_model_server(&mut headers, &decided.into_iter().collect());
        assert_eq!(headers, map(&[("x-custom", "c"), ("x-session", "s")]));
    }

    #[test]
    fn repeated_headers_keep_their_values_unless_changed() {
        let mut headers = HeaderMap::new();
        headers.append("x-many", HeaderValue::from_static("1"));
        headers.append("x-many", HeaderValue::from_static("2"));
        let request = Request::post("/v1/completions?x=1").body(()).expect("a request");
        let (mut head, ()) = request.into_parts();
        head.headers = headers.clone();
        let mut seen = for_director(&head);
        assert_eq!(seen.get(":path"), Some("/v1/completions?x=1"));
        for_model_server(&mut headers, &seen);
        assert_eq!(headers.get_all("x-many").iter().count(), 2);
        seen.insert("x-many", "3");
        for_model_server(&mut headers, &seen);
        assert_eq!(headers.get_all("x-many").iter().collect::<Vec<_>>(), ["3"]);
    }

    #[test]
    fn bytes_that_are_not_text_pass() {
        let raw = HeaderValue::from_bytes(b"caf\xe9").expect("a value");
        let (mut head, ()) = Request::new(()).into_parts();
        head.headers.insert("x-raw", raw.clone());
        let seen = for_director(&head);
        let mut headers = head.headers;
        for_model_server(&mut headers, &seen);
        assert_eq!(headers.get("x-raw"), Some(&raw));
    }
}
