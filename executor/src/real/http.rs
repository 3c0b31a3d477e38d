use std::time::Duration;

use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Request, Response, Version};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::http::{Body, Endpoint, GONE_AFTER, IDLE, Kind, PROBE_AFTER, Received, SendError, classify};

/// How often a client asks whether a server is still there.
const PROBES: u32 = 3;

/// The pooled HTTP/1.1 client.
pub(crate) struct Client(legacy::Client<HttpConnector, Body>);

impl Client {
    pub(crate) fn new(connect_timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_timeout));
        // A machine that is gone says nothing: without these a stream from it would never end.
        connector.set_keepalive(Some(PROBE_AFTER));
        connector.set_keepalive_interval(Some((GONE_AFTER - PROBE_AFTER) / PROBES));
        connector.set_keepalive_retries(Some(PROBES));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        connector.set_tcp_user_timeout(Some(GONE_AFTER));
        Client(
            legacy::Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .build(connector),
        )
    }

    pub(crate) async fn send(
        &self,
        to: &Endpoint,
        request: Request<Body>,
    ) -> Result<Response<Body>, SendError> {
        let (mut head, body) = request.into_parts();
        head.uri = target(to, head.uri).map_err(|error| SendError::protocol(error).at(to))?;
        head.version = Version::HTTP_11;
        match self.0.request(Request::from_parts(head, body)).await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                Ok(Response::from_parts(head, Received::response(body, to)))
            }
            Err(error) => Err(client_error(error).at(to)),
        }
    }
}

fn target(to: &Endpoint, uri: Uri) -> Result<Uri, http::Error> {
    let authority = Authority::try_from(to.to_string())?;
    let path = uri.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
    Uri::builder().scheme(Scheme::HTTP).authority(authority).path_and_query(path).build()
}

fn client_error(error: legacy::Error) -> SendError {
    let otherwise = if error.is_connect() { Kind::Connect } else { Kind::Closed };
    classify(error, otherwise)
}
