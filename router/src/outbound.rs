//! HTTP servers beside the pool that plugins ask: a tokenizer, a latency predictor.

use bytes::Bytes;
use executor::Rt;
use executor::http::{Body, Endpoint as Address, SendError};
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, Uri};

/// Answers are read up to this size. Unit: bytes.
const ANSWER_LIMIT: usize = 64 << 20;

/// A server by its base URL.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    address: Address,
    /// What stands before every path, without a slash at its end.
    base: String,
}

/// What a server answered, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Status.
    pub(crate) status: StatusCode,
    /// Body.
    pub(crate) body: Bytes,
}

impl Server {
    /// Reads a base URL; slashes at its end do not count.
    ///
    /// # Errors
    /// A text that is no `http` URL, with what is wrong with it.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url:?} is no URL: {error}"))?;
        if uri.query().is_some() {
            return Err(format!("{url:?} has a query; accepted: http://host:port/path"));
        }
        let address = address(&uri).map_err(|why| format!("cannot use {url:?}: {why}"))?;
        Ok(Server { address, base: uri.path().trim_end_matches('/').to_owned() })
    }

    /// Posts a JSON text to `path`, which begins with a slash.
    ///
    /// # Errors
    /// No answer, or one that is larger than is read; an answer of any status is none.
    pub(crate) async fn post(&self, rt: &Rt, path: &str, json: Vec<u8>) -> Result<Answer, SendError> {
        let request = Request::post(format!("{}{path}", self.base)).header(CONTENT_TYPE, "application/json");
        self.send(rt, request.body(Body::from(json))).await
    }

    /// Gets `path`, which begins with a slash.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    pub(crate) async fn get(&self, rt: &Rt, path: &str) -> Result<Answer, SendError> {
        self.send(rt, Request::get(format!("{}{path}", self.base)).body(Body::Empty)).await
    }

    async fn send(&self, rt: &Rt, request: http::Result<Request<Body>>) -> Result<Answer, SendError> {
        let request = request.map_err(SendError::protocol)?;
        let response = rt.http().send(&self.address, request).await?;
        let status = response.status();
        Ok(Answer { status, body: response.into_body().bytes(ANSWER_LIMIT).await? })
    }
}

/// Returns where a URL leads.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn address(uri: &Uri) -> Result<Address, String> {
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("https is not supported, only http is".into()),
        _ => return Err("it is not an http URL".into()),
    }
    let authority = uri.authority().ok_or("it names no host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = match authority.port_u16() {
        Some(port) => port,
        None if authority.as_str() == authority.host() => 80,
        None => return Err(format!("{authority} has no port from 0 to 65535")),
    };
    Address::new(host, port).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_an_address_and_a_path() {
        let parsed = |url| Server::parse(url).map(|server| format!("{} {}", server.address, server.base));
        assert_eq!(parsed("http://localhost:8000").as_deref(), Ok("localhost:8000 "));
        assert_eq!(parsed("http://[fd00::1]/a/b//").as_deref(), Ok("[fd00::1]:80 /a/b"));
        for (url, why) in [
            ("https://localhost", "https is not supported"),
            ("localhost:8000", "it is not an http URL"),
            ("http://localhost:x", "no port from 0 to 65535"),
            ("http://localhost/?a", "has a query"),
            ("http://local host", "is no URL"),
            ("", "is no URL"),
        ] {
            let error = Server::parse(url).expect_err(url);
            assert!(error.contains(why), "{url}: {error}");
        }
    }
}
