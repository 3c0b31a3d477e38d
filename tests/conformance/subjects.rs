//! The one table that says which code answers for which file of vectors.
//!
//! A subject is a function that runs one case: it builds what `given` describes, asks our code, and compares the
//! answer with `then` as the README beside the file says. It lives in `<folder>.rs` or `<folder>/<file>.rs`. It may
//! call a case not built only where the support list does so for a plugin type that the case configures, or where one
//! table in it names the feature that the case asks for.

use crate::config;
use crate::config_data;
use crate::engine;
use crate::flow_control;
use crate::model_server;
use crate::outcome::Subject::{self, Built, NotBuilt};
use crate::scheduling;
use crate::{prefix, request_control};

/// The subject of the file called `name` (`folder/file`).
pub(crate) fn of(name: &str) -> Subject {
    let row = TABLE.iter().find(|(file, _)| *file == name);
    row.map_or(NotBuilt("the table of subjects has no row for this file"), |(_, subject)| *subject)
}

const TABLE: &[(&str, Subject)] = &[
    ("config/data_graph", Built(config::run)),
    ("config/discovery_file", Built(config_data::run)),
    ("config/loader_errors", Built(config::run)),
    ("config/loader_ok", Built(config::run)),
    ("config/metrics_extract", Built(config_data::run)),
    ("config/metrics_names", Built(config_data::run)),
    ("config/models_extract", Built(config_data::run)),
    ("config/objects", Built(config_data::run)),
    ("config/plugin_types", Built(config::run)),
    ("engine/async", Built(engine::run)),
    ("engine/finish", Built(engine::run)),
    ("engine/kv_events", Built(engine::run)),
    ("engine/lora", Built(engine::run)),
    ("engine/preemption", Built(engine::run)),
    ("engine/prefix_cache", Built(engine::run)),
    ("engine/priority", Built(engine::run)),
    ("engine/random", Built(engine::run)),
    ("engine/scheduler", Built(engine::run)),
    ("engine/versions", Built(engine::run)),
    ("ext_proc/basic", NotBuilt("the ext_proc server")),
    ("ext_proc/body", NotBuilt("the ext_proc server")),
    ("ext_proc/bodyless", NotBuilt("the ext_proc server")),
    ("ext_proc/errors", NotBuilt("the ext_proc server")),
    ("ext_proc/flowcontrol", NotBuilt("the ext_proc server")),
    ("ext_proc/grpc", NotBuilt("the ext_proc server")),
    ("ext_proc/headers", NotBuilt("the ext_proc server")),
    ("ext_proc/inflight", NotBuilt("the ext_proc server")),
    ("ext_proc/lifecycle", NotBuilt("the ext_proc server")),
    ("ext_proc/metrics", NotBuilt("the ext_proc server")),
    ("ext_proc/paths", NotBuilt("the ext_proc server")),
    ("ext_proc/protocol", NotBuilt("the ext_proc server")),
    ("ext_proc/random", NotBuilt("the ext_proc server")),
    ("ext_proc/response", NotBuilt("the ext_proc server")),
    ("ext_proc/routing", NotBuilt("the ext_proc server")),
    ("ext_proc/startup", NotBuilt("the ext_proc server")),
    ("ext_proc/subset", NotBuilt("the ext_proc server")),
    ("flow_control/admission", Built(flow_control::run)),
    ("flow_control/candidates", Built(flow_control::run)),
    ("flow_control/config", Built(flow_control::run)),
    ("flow_control/eviction", Built(flow_control::run)),
    ("flow_control/eviction_stream", Built(flow_control::run)),
    ("flow_control/fairness", Built(flow_control::run)),
    ("flow_control/ordering", Built(flow_control::run)),
    ("flow_control/processor", Built(flow_control::run)),
    ("flow_control/queue", Built(flow_control::run)),
    ("flow_control/saturation", Built(flow_control::run)),
    ("flow_control/usage_limits", Built(flow_control::run)),
    ("model_server/block_hashes", NotBuilt("the model server")),
    ("model_server/data_parallel", NotBuilt("the model server")),
    ("model_server/e2e", NotBuilt("the model server")),
    ("model_server/http", Built(model_server::run)),
    ("model_server/kv_events", NotBuilt("the model server")),
    ("model_server/metrics", Built(model_server::run)),
    ("model_server/timeline", Built(model_server::run)),
    ("prefix/approx_prefix", Built(prefix::run)),
    ("prefix/block_keys", Built(prefix::run)),
    ("prefix/event_stream", Built(prefix::run)),
    ("prefix/events_apply", Built(prefix::run)),
    ("prefix/events_decode", Built(prefix::run)),
    ("prefix/index", Built(prefix::run)),
    ("prefix/precise_producer", Built(prefix::run)),
    ("prefix/precise_scores", Built(prefix::run)),
    ("prefix/prefix_misc_burst", Built(prefix::run)),
    ("prefix/prefix_misc_p2p", Built(prefix::run)),
    ("prefix/prefix_misc_scorers", Built(prefix::run)),
    ("prefix/prompt_hashes", Built(prefix::run)),
    ("prefix/request_keys", Built(prefix::run)),
    ("request_control/admitters", Built(request_control::run)),
    ("request_control/candidates", Built(request_control::run)),
    ("request_control/director", Built(request_control::run)),
    ("request_control/evictor", Built(request_control::run)),
    ("request_control/headers", Built(request_control::run)),
    ("request_control/inflight_load", Built(request_control::run)),
    ("request_control/lifecycle", Built(request_control::run)),
    ("request_control/parsers", Built(request_control::run)),
    ("request_control/producers", Built(request_control::run)),
    ("request_control/producers_latency", Built(request_control::run)),
    ("request_control/producers_render", Built(request_control::run)),
    ("request_control/responses", Built(request_control::run)),
    ("request_control/rewrite", Built(request_control::run)),
    ("request_control/screeners", Built(request_control::run)),
    ("scheduling/filters", Built(scheduling::run)),
    ("scheduling/helpers", Built(scheduling::run)),
    ("scheduling/pickers", Built(scheduling::run)),
    ("scheduling/profile_handlers", Built(scheduling::run)),
    ("scheduling/profiles", Built(scheduling::run)),
    ("scheduling/scheduler", Built(scheduling::run)),
    ("scheduling/scorers", Built(scheduling::run)),
];
