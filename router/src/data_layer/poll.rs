//! One poll of one endpoint (configuration spec 6.1).

use std::fmt;

use executor::Rt;
use executor::http::{Body, Endpoint as Address, SendError};
use http::header::LOCATION;
use http::{Method, Request, StatusCode, Uri};

use super::engine_gauges::{AcceptGauges, EngineGauges};
use super::families::Families;
use super::{Payload, PollingSource};
use crate::outbound;

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 10;

/// Why a poll failed.
#[derive(Debug)]
pub enum PollError {
    /// The endpoint gives no URL that can be got.
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No answer.
    Send(SendError),
    /// An answer that is not 200.
    Status {
        /// What was polled.
        url: String,
        /// What came.
        status: StatusCode,
    },
    /// More redirects than are followed, or one to nowhere.
    Redirect(String),
    /// The body is not what the source reads.
    Body(String),
    /// Nothing came in time.
    Timeout,
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PollError::Url { url, reason } => write!(f, "cannot poll {url:?}: {reason}"),
            PollError::Send(error) => write!(f, "no answer: {error}"),
            PollError::Status { url, status } => write!(f, "unexpected status code from {url}: {status}"),
            PollError::Redirect(location) => write!(f, "cannot follow the redirect to {location:?}"),
            PollError::Body(problem) => write!(f, "cannot read the answer: {problem}"),
            PollError::Timeout => f.write_str("no answer in time"),
        }
    }
}

impl std::error::Error for PollError {}

impl PollError {
    /// Returns whether the server gave no answer at all, not even one that is of no use.
    pub(super) fn is_silence(&self) -> bool {
        match self {
            PollError::Timeout => true,
            PollError::Send(error) => !error.is_body() && !error.is_protocol(),
            _ => false,
        }
    }
}

impl From<SendError> for PollError {
    fn from(error: SendError) -> Self {
        PollError::Send(error)
    }
}

/// A URL, taken apart once for many polls.
#[derive(Clone, Debug)]
pub(super) struct Target {
    uri: Uri,
    address: Address,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, PollError> {
        let refused = |reason: String| PollError::Url { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|error| refused(format!("{error}")))?;
        Target::from_uri(uri).map_err(refused)
    }

    fn from_uri(uri: Uri) -> Result<Self, String> {
        let address = outbound::address(&uri)?;
        Ok(Target { uri, address })
    }

    /// Returns whether it is at the address `host:port`.
    pub(super) fn is_at(&self, host_port: &str) -> bool {
        self.address.to_string() == host_port
    }

    /// Returns where a redirect from here leads.
    fn redirected(&self, location: &str) -> Option<Self> {
        let uri: Uri = location.parse().ok()?;
        if uri.scheme().is_some() {
            return Target::from_uri(uri).ok();
        }
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some(if location.starts_with('/') {
            location.parse().ok()?
        } else {
            let folder = self.uri.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{location}").parse().ok()?
        });
        Target::from_uri(Uri::from_parts(parts).ok()?).ok()
    }
}

/// Gets and decodes what `source` reads. With `gauges` the engine may answer with values instead of text.
pub(super) async fn poll(
    rt: &Rt,
    source: &dyn PollingSource,
    target: &Target,
    gauges: bool,
) -> Result<Payload, PollError> {
    let mut redirected: Option<Target> = None;
    for _ in 0..=MAX_REDIRECTS {
        let target = redirected.as_ref().unwrap_or(target);
        let mut response = rt.http().send(&target.address, request(target, gauges)).await?;
        let status = response.status();
        if status == StatusCode::OK {
            if let Some(gauges) = response.extensions_mut().remove::<EngineGauges>().filter(|_| gauges) {
                return Ok(Payload::Metrics(Families::Gauges(gauges)));
            }
            let body = response.into_body().bytes(source.body_limit()).await?;
            return source.decode(body).map_err(PollError::Body);
        }
        if !is_redirect(status) {
            return Err(PollError::Status { url: target.uri.to_string(), status });
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("");
        let next = target.redirected(location);
        redirected = Some(next.ok_or_else(|| PollError::Redirect(location.to_owned()))?);
    }
    Err(PollError::Redirect("yet another place".into()))
}

fn request(target: &Target, gauges: bool) -> Request<Body> {
    let mut request = Request::new(Body::Empty);
    *request.method_mut() = Method::GET;
    *request.uri_mut() = target.uri.clone();
    if gauges {
        request.extensions_mut().insert(AcceptGauges);
    }
    request
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_host_and_port() {
        for (url, address) in [
            ("http://10.0.0.1:8000/metrics", "10.0.0.1:8000"),
            ("http://[fd00::1]:9400", "[fd00::1]:9400"),
            ("http://gw.example.com/m", "gw.example.com:80"),
        ] {
            assert_eq!(Target::parse(url).unwrap().address.to_string(), address);
        }
        for url in ["https://a:1/", "http://a:70000/", "http://:1/", "ftp://a/", "/metrics", "http://a b/"] {
            assert!(matches!(Target::parse(url), Err(PollError::Url { .. })), "{url}");
        }
    }

    #[test]
    fn redirects_may_be_relative() {
        let from = Target::parse("http://a:1/x/y").unwrap();
        let to = |location: &str| from.redirected(location).map(|target| target.uri.to_string());
        assert_eq!(to("http://b:2/z").as_deref(), Some("http://b:2/z"));
        assert_eq!(to("/z?q").as_deref(), Some("http://a:1/z?q"));
        assert_eq!(to("z").as_deref(), Some("http://a:1/x/z"));
        assert_eq!(to("https://b/"), None);
    }
}
