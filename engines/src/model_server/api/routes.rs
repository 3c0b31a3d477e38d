//! Paths and methods, and what the web framework says where no endpoint does (model-server spec 1.1, 1.2).

use std::sync::Arc;

use executor::http::Body;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, request};
use router::data_layer::engine_gauges::AcceptGauges;
use serde::Serialize;
use serde_json::Value;

use super::error::ApiError;
use super::operators::{self, Operator};
use super::release::Release;
use super::{
    Asked, Inner, adapters, chat, completions, exposition, generate, lax, models, render, reply, tokens,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LOAD_FORMAT: HeaderName = HeaderName::from_static("endpoint-load-metrics-format");
const LOAD_REPORT: HeaderName = HeaderName::from_static("endpoint-load-metrics");
const RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");

/// An endpoint without a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Models,
    Health,
    Load,
    Version,
    Metrics,
}

/// An endpoint that reads JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Completions,
    Chat,
    RenderCompletion,
    RenderChat,
    Generate,
    Tokenize,
    Detokenize,
    LoadAdapter,
    UnloadAdapter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Page(Page),
    Endpoint(Endpoint),
    Operator(Operator),
}

/// Each path with the methods it takes, as the `allow` header names them.
const ROUTES: &[(&str, &str, Route)] = &[
    ("/v1/completions", "POST", Route::Endpoint(Endpoint::Completions)),
    ("/v1/completions/render", "POST", Route::Endpoint(Endpoint::RenderCompletion)),
    ("/v1/chat/completions", "POST", Route::Endpoint(Endpoint::Chat)),
    ("/v1/chat/completions/render", "POST", Route::Endpoint(Endpoint::RenderChat)),
    ("/inference/v1/generate", "POST", Route::Endpoint(Endpoint::Generate)),
    ("/tokenize", "POST", Route::Endpoint(Endpoint::Tokenize)),
    ("/detokenize", "POST", Route::Endpoint(Endpoint::Detokenize)),
    ("/v1/load_lora_adapter", "POST", Route::Endpoint(Endpoint::LoadAdapter)),
    ("/v1/unload_lora_adapter", "POST", Route::Endpoint(Endpoint::UnloadAdapter)),
    ("/pause", "POST", Route::Operator(Operator::Pause)),
    ("/resume", "POST", Route::Operator(Operator::Resume)),
    ("/is_paused", "GET", Route::Operator(Operator::IsPaused)),
    ("/sleep", "POST", Route::Operator(Operator::Sleep)),
    ("/wake_up", "POST", Route::Operator(Operator::WakeUp)),
    ("/is_sleeping", "GET", Route::Operator(Operator::IsSleeping)),
    ("/reset_prefix_cache", "POST", Route::Operator(Operator::ResetPrefixCache)),
    ("/server_info", "GET", Route::Operator(Operator::ServerInfo)),
    ("/v1/models", "GET", Route::Page(Page::Models)),
    ("/health", "GET", Route::Page(Page::Health)),
    ("/ping", "GET, POST", Route::Page(Page::Health)),
    ("/load", "GET", Route::Page(Page::Load)),
    ("/version", "GET", Route::Page(Page::Version)),
    // The scrape page is mounted: it takes all methods.
    ("/metrics", "", Route::Page(Page::Metrics)),
];

fn find(server: &Inner, path: &str) -> Option<&'static (&'static str, &'static str, Route)> {
    ROUTES.iter().find(|(known, ..)| *known == path).filter(|(_, _, route)| match route {
        Route::Endpoint(Endpoint::LoadAdapter | Endpoint::UnloadAdapter) => {
            server.options.runtime_lora_updating
        }
        Route::Operator(_) => server.options.dev_mode,
        _ => true,
    })
}

/// Answers a request, with the headers that the layers around the endpoints add.
pub(super) async fn answer(server: &Arc<Inner>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let preflight = head.method == Method::OPTIONS
        && head.headers.contains_key(header::ORIGIN)
        && head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if preflight {
        return preflight_answer(server, &head.headers);
    }
    let mut response = match dispatch(server, &head, body).await {
        Ok(response) => response,
        Err(error) if error.is_bare(server.release) => return error.response(server.release),
        Err(error) => error.response(server.release),
    };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    if head.headers.contains_key(header::ORIGIN) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    }
    if server.options.request_id_headers {
        let fresh = || HeaderValue::try_from(server.hex16() + &server.hex16()).ok();
        if let Some(id) = head.headers.get(REQUEST_ID).cloned().or_else(fresh) {
            headers.insert(REQUEST_ID, id);
        }
    }
    if head.method == Method::HEAD {
        *response.body_mut() = Body::Empty;
    }
    response
}

async fn dispatch(
    server: &Arc<Inner>,
    head: &request::Parts,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    let path = head.uri.path();
    if path.starts_with("/v1") && !may_enter(server, head) {
        return Ok(reply::with(StatusCode::UNAUTHORIZED, "application/json", "{\"error\":\"Unauthorized\"}"));
    }
    let Some((_, allow, route)) = find(server, path) else { return Ok(unknown(server, head)) };
    if !allow.is_empty() && !allow.split(", ").any(|method| head.method == *method) {
        let mut response = Response::new(Body::Empty);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        let detail = reply::detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        let (parts, body) = detail.into_parts();
        response.headers_mut().extend(parts.headers);
        *response.status_mut() = parts.status;
        return Ok(response.map(|_| body));
    }
    match route {
        Route::Page(page) => Ok(self::page(server, *page, head)),
        Route::Operator(operator) => operators::answer(server, *operator, head).await,
        Route::Endpoint(Endpoint::RenderCompletion | Endpoint::RenderChat | Endpoint::Generate)
            if server.release >= Release::V32 && !server.options.scale_out =>
        {
            Err(ApiError::closed("this endpoint needs a server with --enable-scale-out"))
        }
        Route::Endpoint(endpoint) => {
            let body = read_json(server, head, body).await?;
            match body {
                Ok(body) => self::endpoint(server, *endpoint, head, &body).await,
                Err(response) => Ok(response),
            }
        }
    }
}

fn page(server: &Arc<Inner>, page: Page, head: &request::Parts) -> Response<Body> {
    #[derive(Serialize)]
    struct Version<'a> {
        version: &'a str,
    }
    #[derive(Serialize)]
    struct Load {
        server_load: u64,
    }
    match page {
        Page::Models => models::list(server),
        // An engine whose handle lives steps; one that is gone has closed its channel.
        Page::Health if server.engines.iter().all(|engine| engine.is_alive()) => Response::new(Body::Empty),
        Page::Health => {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
        Page::Load => {
            reply::json(&Load { server_load: server.load.load(std::sync::atomic::Ordering::Relaxed) })
        }
        Page::Version => reply::json(&Version { version: &server.options.version }),
        Page::Metrics if head.extensions.get::<AcceptGauges>().is_some() => exposition::gauges(server),
        Page::Metrics => exposition::text(server, head.method == Method::GET),
    }
}

async fn endpoint(
    server: &Arc<Inner>,
    endpoint: Endpoint,
    head: &request::Parts,
    body: &Value,
) -> Result<Response<Body>, ApiError> {
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let asked = Asked {
        request_id: text(REQUEST_ID),
        rank: text(RANK).and_then(|rank| rank.trim().parse().ok()),
        ticket: server.ticket(),
    };
    let response = match endpoint {
        Endpoint::Completions => completions::answer(server, asked, body).await?,
        Endpoint::Chat => chat::answer(server, asked, body).await?,
        Endpoint::RenderCompletion => return render::completion(server, body),
        Endpoint::RenderChat => return render::chat(server, body),
        Endpoint::Generate => return generate::answer(server, asked, body).await,
        Endpoint::Tokenize => return tokens::tokenize(server, body),
        Endpoint::Detokenize => return tokens::detokenize(server, body),
        Endpoint::LoadAdapter => return adapters::load(server, body),
        Endpoint::UnloadAdapter => return adapters::unload(server, body),
    };
    let whole = !matches!(response.body(), Body::Stream(_));
    match text(LOAD_FORMAT).filter(|_| whole).and_then(|format| server.load_report(format)) {
        None => Ok(response),
        Some(report) => {
            let (mut parts, body) = response.into_parts();
            let rest = std::mem::take(&mut parts.headers);
            parts.headers.insert(LOAD_REPORT, report);
            parts.headers.extend(rest);
            Ok(Response::from_parts(parts, body))
        }
    }
}

/// Reads a body as leniently as Python reads JSON; the inner error is an answer of the web framework.
async fn read_json(
    server: &Inner,
    head: &request::Parts,
    body: Body,
) -> Result<Result<Value, Response<Body>>, ApiError> {
    let limit = server.options.max_body;
    let bytes = body.bytes(limit).await.map_err(|_| ApiError::too_large(limit))?;
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Ok(Err(reply::detail(StatusCode::BAD_REQUEST, "There was an error parsing the body")));
    };
    let value = serde_json::from_str(text).or_else(|error| match lax::quote_infinities(text) {
        Some(quoted) => serde_json::from_str(&quoted).map_err(|_| error),
        None => Err(error),
    });
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(ApiError::shape("only application/json is accepted as the content type"));
    }
    match value {
        Ok(value @ Value::Object(_)) => Ok(Ok(value)),
        Ok(value) => {
            // The server's own look into the body breaks on anything else (model-server spec 1.2).
            let breaks = match server.release {
                Release::V21 => true,
                Release::V27 => !value.is_null(),
                Release::V32 => false,
            };
            Err(match breaks {
                true => ApiError::internal(),
                false => ApiError::shape("the body is no object").field("body"),
            })
        }
        Err(error) => {
            let shape = ApiError::shape(format!("the body is no JSON: {error}"));
            Err(shape.field(if text.is_empty() {
                "body".to_owned()
            } else {
                format!("body.{}", place(text, &error))
            }))
        }
    }
}

/// Where in `text` JSON ends to be such, in characters from its beginning.
fn place(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(|line| line.chars().count()).sum();
    // The column of an error is that of the character at fault, from 1; of a text that is cut, that of the last.
    before + if error.is_eof() { error.column() } else { error.column().saturating_sub(1) }
}

fn may_enter(server: &Inner, head: &request::Parts) -> bool {
    let Some(key) = &server.options.api_key else { return true };
    let given = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    head.method == Method::OPTIONS
        || given
            .and_then(|given| given.split_once(' '))
            .is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token == key)
}

/// A path that no endpoint has: one slash too many is a redirection.
fn unknown(server: &Inner, head: &request::Parts) -> Response<Body> {
    let path = head.uri.path();
    match path.strip_suffix('/').and_then(|path| find(server, path)) {
        Some((_, _, Route::Page(Page::Metrics))) => exposition::text(server, false),
        Some((known, ..)) => {
            let host =
                head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
            let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            if let Ok(location) = HeaderValue::try_from(format!("http://{host}{known}{query}")) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            response
        }
        None => reply::detail(StatusCode::NOT_FOUND, "Not Found"),
    }
}

/// Allows any other page to ask; releases from 0.32 on allow none that they were not told of.
fn preflight_answer(server: &Inner, asked: &HeaderMap) -> Response<Body> {
    let allowed = server.release < Release::V32;
    let mut response = Response::new(Body::from(if allowed { "OK" } else { "Disallowed CORS origin" }));
    if !allowed {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::VARY,
            "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, \
             Access-Control-Request-Private-Network",
        ),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, QUERY"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        if allowed || name != header::ACCESS_CONTROL_ALLOW_ORIGIN {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
