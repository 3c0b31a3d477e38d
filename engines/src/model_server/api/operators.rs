//! Endpoints for who runs the server, served in development mode: pause, sleep, reset (model-server spec 6.4).

use std::collections::BTreeSet;
use std::sync::PoisonError;

use executor::http::Body;
use futures::future;
use http::{Response, request};
use serde::Serialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::release::Release;
use super::{Inner, reply};
use crate::engine::PauseMode;
use crate::model_server::generation::EngineHandle;

/// An endpoint for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Pause,
    Resume,
    IsPaused,
    Sleep,
    WakeUp,
    IsSleeping,
    ResetPrefixCache,
    ServerInfo,
}

/// What keeps a server's engines from stepping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rest {
    paused: bool,
    /// Parts of the engine that are asleep.
    asleep: BTreeSet<&'static str>,
}

/// What can be woken by itself.
const TAGS: [&str; 2] = ["kv_cache", "weights"];

/// The texts of a query.
type Query = Vec<(String, String)>;

/// Answers an endpoint for operators.
///
/// A pause or a sleep is answered once the engines rest, as vLLM does: with `mode=wait` that is when the last running
/// request has ended.
pub(super) async fn answer(
    server: &Inner,
    operator: Operator,
    head: &request::Parts,
) -> Result<Response<Body>, ApiError> {
    let query: Query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes())
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    match operator {
        Operator::Pause => {
            let clear_cache = truth(&query, "clear_cache", true)?;
            pause(server, mode(&query)?, clear_cache).await;
            Ok(status("paused"))
        }
        Operator::Resume => {
            let awake = rest(server, |rest| {
                rest.paused = false;
                rest.asleep.is_empty()
            });
            if awake {
                server.engines.iter().for_each(EngineHandle::resume);
            }
            Ok(status("resumed"))
        }
        Operator::IsPaused => {
            #[derive(Serialize)]
            struct IsPaused {
                is_paused: bool,
            }
            Ok(reply::json(&IsPaused { is_paused: rest(server, |rest| rest.paused) }))
        }
        Operator::Sleep => sleep(server, &query).await,
        Operator::WakeUp => wake_up(server, &query),
        Operator::IsSleeping => {
            #[derive(Serialize)]
            struct IsSleeping {
                is_sleeping: bool,
            }
            let is_sleeping = rest(server, |rest| rest.paused || !rest.asleep.is_empty());
            Ok(reply::json(&IsSleeping { is_sleeping }))
        }
        Operator::ResetPrefixCache => {
            server.engines.iter().for_each(EngineHandle::reset_prefix_cache);
            Ok(match server.release >= Release::V27 {
                true => reply::json(&json!({"success": true})),
                false => Response::new(Body::Empty),
            })
        }
        Operator::ServerInfo => Ok(reply::json(&server_info(server, &query))),
    }
}

fn rest<T>(server: &Inner, look: impl FnOnce(&mut Rest) -> T) -> T {
    look(&mut server.rest.lock().unwrap_or_else(PoisonError::into_inner))
}

fn status(status: &'static str) -> Response<Body> {
    #[derive(Serialize)]
    struct Status {
        status: &'static str,
    }
    reply::json(&Status { status })
}

async fn pause(server: &Inner, mode: PauseMode, clear_cache: bool) {
    rest(server, |rest| rest.paused = true);
    // An engine that is gone rests.
    future::join_all(server.engines.iter().map(|engine| engine.pause(mode, clear_cache))).await;
}

async fn sleep(server: &Inner, query: &Query) -> Result<Response<Body>, ApiError> {
    let level = match text(query, "level").unwrap_or("1").parse::<u8>() {
        Ok(level @ ..=2) => level,
        _ => return Err(ApiError::shape("level must be 0, 1 or 2").field("query.level")),
    };
    pause(server, mode(query)?, level > 0).await;
    if level > 0 {
        rest(server, |rest| rest.asleep.extend(TAGS));
        show_sleep(server, level);
    }
    Ok(match server.release >= Release::V32 {
        true => reply::json(&json!({"status": "sleeping", "level": level})),
        false => Response::new(Body::Empty),
    })
}

fn wake_up(server: &Inner, query: &Query) -> Result<Response<Body>, ApiError> {
    let tags: Vec<&str> = query.iter().filter(|(name, _)| name == "tags").map(|(_, tag)| &**tag).collect();
    if let Some(unknown) = tags.iter().find(|tag| !TAGS.contains(tag)) {
        let message = format!("tags: {unknown:?} is none of {}", TAGS.join(", "));
        return Err(ApiError::shape(message).field("query.tags"));
    }
    let awake = rest(server, |rest| {
        rest.asleep.retain(|tag| !tags.is_empty() && !tags.contains(tag));
        let awake = rest.asleep.is_empty();
        rest.paused &= !awake;
        awake
    });
    if awake {
        show_sleep(server, 0);
        server.engines.iter().for_each(EngineHandle::resume);
    }
    Ok(match server.release >= Release::V32 {
        true => reply::json(&json!({"status": "awake", "tags": (!tags.is_empty()).then_some(tags)})),
        false => Response::new(Body::Empty),
    })
}

fn show_sleep(server: &Inner, level: u8) {
    for engine in &server.engines {
        engine.published().lock().sleep_level = level;
    }
}

fn text<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
}

fn mode(query: &Query) -> Result<PauseMode, ApiError> {
    match text(query, "mode") {
        None | Some("abort") => Ok(PauseMode::Abort),
        Some("wait") => Ok(PauseMode::Wait),
        Some("keep") => Ok(PauseMode::Keep),
        Some(other) => {
            let message = format!("mode must be abort, wait or keep, not {other:?}");
            Err(ApiError::shape(message).field("query.mode"))
        }
    }
}

fn truth(query: &Query, name: &'static str, default: bool) -> Result<bool, ApiError> {
    match text(query, name).map(str::to_ascii_lowercase).as_deref() {
        None => Ok(default),
        Some("true" | "1" | "yes" | "on") => Ok(true),
        Some("false" | "0" | "no" | "off") => Ok(false),
        Some(other) => Err(ApiError::shape(format!("{name} must be true or false, not {other:?}"))),
    }
}

/// The options that a simulated server has, under vLLM's names; as one text, unless JSON is asked for.
fn server_info(server: &Inner, query: &Query) -> Value {
    let options = &server.options;
    let published = server.engines[0].published().lock();
    let config = json!({
        "model_config": {
            "model": options.model_path,
            "served_model_name": options.served_model_names,
            "max_model_len": options.max_model_len,
        },
        "cache_config": {
            "block_size": published.block_size,
            "num_gpu_blocks": published.num_gpu_blocks,
            "enable_prefix_caching": published.enable_prefix_caching,
        },
        "parallel_config": {"data_parallel_size": server.engines.len()},
    });
    match text(query, "config_format") {
        Some("json") => json!({"vllm_config": config}),
        _ => json!({"vllm_config": config.to_string()}),
    }
}

#[cfg(test)]
mod tests;
