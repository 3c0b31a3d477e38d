//! `http.jsonl`: requests to a real vLLM, and what it answered.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use engines::engine::latency::Latency;
use engines::engine::{EngineConfig, Profile, SchedulingPolicy};
use engines::model_server::{Driver, ModelServer, ServerOptions};
use executor::http::Body;
use executor::{Real, Rt};
use serde_json::{Map, Value, json};
use tests::compare::Rules;
use tests::outcome::Outcome;
use tests::{cases, vectors};

use super::answer;

/// The releases whose answers are compared.
const VERSIONS: [&str; 3] = ["0.21.0", "0.27.1", "0.32.0"];

/// Where a model and an adapter were loaded from, as the vectors write it.
const MODEL_PATH: &str = "<model path>";
const LORA_PATH: &str = "<lora path>";

/// Whether a request asks for a feature.
type Asks = fn(&Value) -> bool;

/// What vLLM serves and the simulated server does not: a feature, and which requests ask for it.
const NOT_BUILT: &[(&str, Asks)] = &[
    ("scripts of connections and processes", |given| given.get("script").is_some()),
    ("the Responses API", |given| path(given).starts_with("/v1/responses")),
    ("the Messages API", |given| path(given).starts_with("/v1/messages")),
    ("the sources of KV events", |given| path(given) == "/kv_event_sources"),
    ("the OpenAPI document", |given| path(given) == "/openapi.json"),
    ("log-probabilities of the prompt", |given| given["body"].get("prompt_logprobs").is_some()),
];

fn path(given: &Value) -> &str {
    given["path"].as_str().unwrap_or_default()
}

fn server(given: &Value) -> &str {
    given["server"].as_str().unwrap_or_default()
}

/// Runs one case, on a server of each release that the recording has an answer of.
pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    if let Some((feature, _)) = NOT_BUILT.iter().find(|(_, asks)| asks(given)) {
        return Outcome::NotBuilt((*feature).to_owned());
    }
    let wanted = VERSIONS.iter().filter_map(|version| Some((*version, answer_of(&case["then"], version)?)));
    let mut outcome = Outcome::Failed("no release that is compared has an answer".to_owned());
    for (version, then) in wanted {
        outcome = on(version, case["id"].as_str().unwrap_or_default(), given, then);
        if let Outcome::Failed(difference) = outcome {
            return Outcome::Failed(format!("{version}: {difference}"));
        }
    }
    outcome
}

/// The answer of a release, which may be that of another.
fn answer_of<'a>(then: &'a Value, version: &str) -> Option<&'a Value> {
    let answer = then.get(version)?;
    match answer.as_str().and_then(|text| text.strip_prefix("as ")) {
        Some(other) => then.get(other),
        None => Some(answer),
    }
}

fn on(version: &'static str, id: &str, given: &Value, then: &Value) -> Outcome {
    let got = match server(given) {
        // Its cases build on one another: they are played in the order of the file, once for all of them.
        "second" => second(version).get(id).cloned().unwrap_or_default(),
        name => match options(name, version) {
            None => return Outcome::Failed(format!("no server is called {name}")),
            Some(options) => play(options, std::iter::once(given)).pop().unwrap_or_default(),
        },
    };
    let (mut want, mut got) = (answer::canonical(then), answer::canonical(&got));
    if given["body"]["min_tokens"].as_u64() > Some(0) {
        // Below the minimum the forced token, which would end the text, is not taken: the model writes of its own.
        answer::hide_texts(&mut want);
        answer::hide_texts(&mut got);
    }
    Rules::exact().outcome(&want, &answer::masked(&want, &got, version))
}

/// The answers of the server `second` of a release to all its cases, by id.
fn second(version: &'static str) -> &'static BTreeMap<String, Value> {
    static ANSWERS: [OnceLock<BTreeMap<String, Value>>; VERSIONS.len()] =
        [const { OnceLock::new() }; VERSIONS.len()];
    let place = VERSIONS.iter().position(|known| *known == version).expect("it is one of them");
    ANSWERS[place].get_or_init(|| {
        let files = vectors::open().ok().and_then(|files| cases::load(&files).ok()).unwrap_or_default();
        let lines =
            files.into_iter().filter(|file| file.name == "model_server/http").flat_map(|file| file.cases);
        let all = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let sequence: Vec<Value> = all.filter(|case| server(&case["given"]) == "second").collect();
        let ids = sequence.iter().map(|case| case["id"].as_str().unwrap_or_default().to_owned());
        let options = options("second", version).expect("the table of servers has it");
        ids.zip(play(options, sequence.iter().map(|case| &case["given"]))).collect()
    })
}

/// How a server of the recording was started.
fn options(name: &str, version: &str) -> Option<ServerOptions> {
    let common = ServerOptions {
        served_model_names: vec!["tiny".to_owned(), "tiny-alias".to_owned()],
        version: version.to_owned(),
        ..ServerOptions::new(MODEL_PATH, 4096)
    };
    let adapter = |name: &str| (name.to_owned(), format!("{LORA_PATH}/{name}"));
    match name {
        "main" => Some(common),
        "second" => Some(ServerOptions {
            lora_modules: vec![adapter("lo1"), adapter("lo2")],
            runtime_lora_updating: true,
            lora_paths: vec![adapter("lo3").1],
            dev_mode: true,
            request_id_headers: true,
            prompt_tokens_details: true,
            server_load_tracking: true,
            ..common
        }),
        "key" => {
            Some(ServerOptions { api_key: Some("secret".to_owned()), force_include_usage: true, ..common })
        }
        "scale-out" => Some(ServerOptions { scale_out: true, ..common }),
        _ => None,
    }
}

/// Starts a fresh server and sends it the requests one after the other.
fn play<'a>(options: ServerOptions, requests: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let real = Real::builder().current_thread().seed(1).build().expect("a runtime starts");
    real.run(|rt| async move {
        let server = start(&rt, options);
        let mut answers = Vec::new();
        for given in requests {
            answers.push(answer::of(server.handle(request(given)).await).await);
        }
        answers
    })
}

fn start(rt: &Rt, options: ServerOptions) -> ModelServer {
    let second = options.dev_mode;
    let config = EngineConfig {
        max_num_seqs: 64,
        block_size: 32,
        policy: if second { SchedulingPolicy::Priority } else { SchedulingPolicy::Fcfs },
        max_loras: second.then_some(1),
        // The recorded engines ran on the CPU, which schedules synchronously.
        async_scheduling: false,
        ..EngineConfig::new(Profile::VLLM_0_21, 512, options.max_model_len)
    };
    let (driver, handle) = Driver::new(rt, config, Latency::Fixed(0)).expect("the recorded options are good");
    drop(rt.daemon("engine", driver.run()));
    ModelServer::new(rt, "recorded", vec![handle], options)
}

fn request(given: &Value) -> ::http::Request<Body> {
    let mut request =
        ::http::Request::builder().method(given["method"].as_str().unwrap_or("GET")).uri(path(given));
    // The address of the recorded server is a placeholder, which may stand in a header.
    request = request.header("host", "<host>");
    let headers = given["headers"].as_object().into_iter().flatten();
    for (name, value) in headers {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    let typed = request.headers_ref().is_some_and(|headers| headers.contains_key("content-type"));
    let body: Bytes = match (given.get("body"), given.get("raw_body")) {
        (Some(body), _) => {
            if !typed {
                request = request.header("content-type", "application/json");
            }
            expand(body).to_string().replace(LORA_PLACEHOLDER, LORA_PATH).into()
        }
        (None, Some(Value::String(raw))) => raw.clone().into(),
        (None, Some(raw)) => hex(raw["hex"].as_str().unwrap_or_default()).into(),
        (None, None) => Bytes::new(),
    };
    request.body(Body::from(body)).expect("the recorded requests are requests")
}

/// The folder of the adapters in requests.
const LORA_PLACEHOLDER: &str = "{lora}";

/// Writes `{"repeat": x, "times": n}` out.
fn expand(value: &Value) -> Value {
    match value {
        Value::Object(members) => match (members.get("repeat"), members.get("times").and_then(Value::as_u64))
        {
            (Some(item), Some(times)) => {
                let times = usize::try_from(times).expect("a body fits in memory");
                match item.as_str().filter(|_| members.contains_key("join")) {
                    Some(text) => Value::from(text.repeat(times)),
                    None => Value::Array(vec![item.clone(); times]),
                }
            }
            _ => Value::Object(members.iter().map(|(k, v)| (k.clone(), expand(v))).collect::<Map<_, _>>()),
        },
        Value::Array(items) => items.iter().map(expand).collect(),
        other => json!(other),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or_default(), 16).unwrap_or(0);
    text.as_bytes().chunks(2).map(digits).collect()
}
