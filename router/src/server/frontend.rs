//! What the listening socket serves: the proxy, and the router's own pages.

use executor::http::Body;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;

use super::core::CoreHandle;
use super::error_response::json_error;
use super::proxy::Proxy;

/// Answers the router's own pages and hands everything else to the proxy. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Frontend {
    proxy: Proxy,
    core: CoreHandle,
    explains: bool,
}

impl Frontend {
    /// Returns the front end of `proxy`.
    pub fn new(proxy: Proxy, core: CoreHandle) -> Self {
        Frontend { proxy, core, explains: false }
    }

    /// Serves `/debug/decisions/{request-id}` too: the core explains decisions.
    pub fn with_explanations(mut self) -> Self {
        self.explains = true;
        self
    }

    /// Answers one request.
    ///
    /// `GET /metrics` is the router's metrics. `GET /healthz` is 200 while there is an endpoint to route to, and
    /// 503 before and after. `GET /debug/decisions/{request-id}` is the reason of a decision, where decisions are
    /// explained. `HEAD` of these is answered as `GET`, without the body; no other method is allowed.
    pub async fn handle(self, request: Request<Body>) -> Response<Body> {
        let page = match request.uri().path() {
            "/metrics" => Page::Metrics,
            "/healthz" => Page::Health,
            path => match path.strip_prefix(DECISIONS).filter(|_| self.explains) {
                Some(request_id) => Page::Decision(request_id.to_owned()),
                None => return self.proxy.handle(request).await,
            },
        };
        match *request.method() {
            Method::GET => self.page(page).await,
            Method::HEAD => without_body(self.page(page).await),
            _ => {
                let message = "this path is the router's own, and can only be read";
                let mut response = json_error(405, "MethodNotAllowed", message);
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                response
            }
        }
    }

    async fn page(self, page: Page) -> Response<Body> {
        match page {
            Page::Metrics => match self.core.metrics().await {
                Some(text) => plain(StatusCode::OK, text),
                None => gone(),
            },
            Page::Health => match self.core.endpoints().await {
                Some(0) => plain(StatusCode::SERVICE_UNAVAILABLE, "no endpoints\n".to_owned()),
                Some(_) => plain(StatusCode::OK, "ok\n".to_owned()),
                None => gone(),
            },
            Page::Decision(request_id) => match self.core.explanation(&request_id).await {
                Some(json) => {
                    let mut response = Response::new(Body::from(json));
                    let content_type = HeaderValue::from_static("application/json");
                    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
                    response
                }
                None => json_error(404, "NotFound", "no decision about this request is remembered"),
            },
        }
    }
}

/// Where the reasons of decisions are, by request id.
const DECISIONS: &str = "/debug/decisions/";

/// A page of the router's own.
enum Page {
    Metrics,
    Health,
    Decision(String),
}

/// Answers `HEAD`: the length is that of the body that `GET` would get.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
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
