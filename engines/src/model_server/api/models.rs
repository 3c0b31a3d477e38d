//! `GET /v1/models` (model-server spec 1.9).

use std::sync::PoisonError;

use executor::http::Body;
use http::Response;
use serde::Serialize;

use super::{Inner, reply};

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Card<'a>>,
}

#[derive(Serialize)]
struct Card<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    root: &'a str,
    parent: Option<&'a str>,
    max_model_len: Option<u32>,
    permission: [Permission; 1],
}

#[derive(Serialize)]
struct Permission {
    id: String,
    object: &'static str,
    created: u64,
    allow_create_engine: bool,
    allow_sampling: bool,
    allow_logprobs: bool,
    allow_search_indices: bool,
    allow_view: bool,
    allow_fine_tuning: bool,
    organization: &'static str,
    group: (),
    is_blocking: bool,
}

/// Lists the served names, then the adapters in order of loading.
pub(super) fn list(server: &Inner) -> Response<Body> {
    let created = server.rt.wall().unix_secs();
    let card = |id, root, parent, max_model_len| Card {
        id,
        object: "model",
        created,
        owned_by: "vllm",
        root,
        parent,
        max_model_len,
        permission: [permission(server, created)],
    };
    let options = &server.options;
    let base = options.served_model_names.iter();
    let base = base.map(|name| card(name, &options.model_path, None, Some(options.max_model_len)));
    let adapters = server.adapters.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let adapters = adapters.loaded.iter();
    let adapters = adapters.map(|adapter| card(&adapter.name, &adapter.path, Some(server.model()), None));
    reply::json(&List { object: "list", data: base.chain(adapters).collect() })
}

fn permission(server: &Inner, created: u64) -> Permission {
    Permission {
        id: format!("modelperm-{}", server.hex16()),
        object: "model_permission",
        created,
        allow_create_engine: false,
        allow_sampling: true,
        allow_logprobs: true,
        allow_search_indices: false,
        allow_view: true,
        allow_fine_tuning: false,
        organization: "*",
        group: (),
        is_blocking: false,
    }
}
