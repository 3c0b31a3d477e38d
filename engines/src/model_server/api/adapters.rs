//! Loading and unloading LoRA adapters at run time (model-server spec 1.11).

use std::sync::PoisonError;

use executor::http::Body;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::error::ApiError;
use super::{Adapter, Inner, fields, lax};

#[derive(Debug, Deserialize)]
struct Load {
    lora_name: String,
    lora_path: String,
    #[serde(default, deserialize_with = "lax::truth")]
    load_inplace: bool,
}

#[derive(Debug, Deserialize)]
struct Unload {
    lora_name: String,
}

/// The adapters that are loaded, in order of loading.
#[derive(Clone, Debug)]
pub(super) struct Adapters {
    pub(super) loaded: Vec<Adapter>,
    /// The number of the next.
    next: u32,
}

impl Adapters {
    /// Numbers the adapters named at the start from 1.
    pub(super) fn new(modules: &[(String, String)]) -> Self {
        let loaded = (1..).zip(modules);
        let loaded =
            loaded.map(|(number, (name, path))| Adapter { name: name.clone(), path: path.clone(), number });
        let loaded: Vec<_> = loaded.collect();
        Self { next: loaded.last().map_or(1, |last| last.number + 1), loaded }
    }
}

/// Loads an adapter: its name is a model from then on.
pub(super) fn load(server: &Inner, body: &Value) -> Result<Response<Body>, ApiError> {
    let Load { lora_name: name, lora_path: path, load_inplace } = fields::read(body)?;
    if name.is_empty() || path.is_empty() {
        return Err(ApiError::bad_input("lora_name and lora_path must not be empty"));
    }
    let mut adapters = server.adapters.lock().unwrap_or_else(PoisonError::into_inner);
    let known = adapters.loaded.iter().position(|adapter| adapter.name == name);
    if known.is_some() && !load_inplace {
        return Err(ApiError::bad_input(format!("adapter {name} is loaded already")));
    }
    if !server.options.any_lora_path && !server.options.lora_paths.contains(&path) {
        return Err(ApiError::no_adapter(format!("there is no adapter at {path}")).into_raised());
    }
    match known.and_then(|place| adapters.loaded.get_mut(place)) {
        Some(adapter) => adapter.path = path,
        None => {
            let number = adapters.next;
            adapters.next += 1;
            adapters.loaded.push(Adapter { name: name.clone(), path, number });
        }
    }
    Ok(success(&name, "added"))
}

/// Unloads an adapter.
pub(super) fn unload(server: &Inner, body: &Value) -> Result<Response<Body>, ApiError> {
    let Unload { lora_name: name } = fields::read(body)?;
    let mut adapters = server.adapters.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(place) = adapters.loaded.iter().position(|adapter| adapter.name == name) else {
        return Err(ApiError::no_adapter(format!("adapter {name} is not loaded")));
    };
    adapters.loaded.remove(place);
    Ok(success(&name, "removed"))
}

fn success(name: &str, what: &str) -> Response<Body> {
    let mut response =
        Response::new(Body::from(format!("Success: LoRA adapter '{name}' {what} successfully.")));
    *response.status_mut() = StatusCode::OK;
    response
}
