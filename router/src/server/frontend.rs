//! What the listening socket serves: the proxy, and the router's own pages.

use executor::http::Body;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};

use super::core::CoreHandle;
use super::error_response::json_error;
use super::proxy::Proxy;

/// Answers the router's own pages and hands everything else to the proxy. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Frontend {
    proxy: Proxy,
    core: CoreHandle,
}

impl Frontend {
    /// Returns the front end of `proxy`.
    pub fn new(proxy: Proxy, core: CoreHandle) -> Self {
        Frontend { proxy, core }
    }

    /// Answers one request.
    ///
    /// `GET /metrics` is the router's metrics. `GET /healthz` is 200 while there is an endpoint to route to, and
    /// 503 before and after.
    pub async fn handle(self, request: Request<Body>) -> Response<Body> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/metrics") => match self.core.metrics().await {
                Some(text) => plain(StatusCode::OK, text),
                None => gone(),
            },
            (&Method::GET, "/healthz") => match self.core.endpoints().await {
                Some(0) => plain(StatusCode::SERVICE_UNAVAILABLE, "no endpoints\n".to_owned()),
                Some(_) => plain(StatusCode::OK, "ok\n".to_owned()),
                None => gone(),
            },
            _ => self.proxy.handle(request).await,
        }
    }
}

fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

fn gone() -> Response<Body> {
    json_error(503, "ServiceUnavailable", "the router is shutting down")
}
