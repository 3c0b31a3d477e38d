//! `rewrite.jsonl`: which model a request is sent to, the bytes that are forwarded, and the name that the client reads.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use executor::{Rt, Sim, Stream};
use router::admission::LegacyAdmission;
use router::config::assembly::Assembly;
use router::config::loader::{Options, load};
use router::director::{
    Director, DirectorOptions, ForwardedBody, Hooks, ModelRename, ModelRewrites, Pool, RequestInput,
    RewriteRule, RewriteTarget,
};
use router::endpoint::{Endpoint, EndpointMetadata};
use router::error::PluginError;
use router::headers::Headers;
use router::plugin::Handle;
use router::support::Registry;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::parsers;
use crate::outcome::Outcome;

/// Draws by which the probabilities are judged, and how far a share may be off: six standard deviations at most.
const DRAWS: u32 = 4_000;
const TOLERANCE: f64 = 0.048;

/// Requests that are routed to see each outcome's body.
const REQUESTS: usize = 150;

pub(super) fn run(case: &Value) -> Outcome {
    let (given, then) = (&case["given"], &case["then"]);
    if given.get("response_chunks").is_some() {
        return Rules::exact().outcome(then, &response(given));
    }
    let rewrites = rewrites(&given["rewrite_operations"]);
    let registry = match parsers::registry(given) {
        Ok(registry) => registry,
        Err(outcome) => return outcome,
    };
    let mut headers = parsers::headers(&given["request"]["headers"]);
    headers.insert(":path", given["request"]["path"].as_str().unwrap_or_default());
    let parsed = registry.parse(&headers, parsers::bytes(&given["request"], "body"));
    let body = parsed.expect("the body of a rewrite case parses").0;

    let rewritable = matches!(body.payload, router::request::Payload::Json(_));
    let rule = rewrites.rule(&body.model);
    let mut got = json!({
        "incoming_model": body.model,
        "rule_from": rule.as_ref().map(|(name, _)| name.to_string()),
    });
    let requested = Rc::new((headers, body));
    let routed = Sim::new(1).run(move |rt| async move { outcomes(&rt, rewrites, &requested).await }).unwrap();
    match then.get("outcomes") {
        None => match routed.keys().next() {
            Some(None) if routed.len() == 1 => got["error"] = json!({"kind": "no-model", "status": 400}),
            _ => got["outcomes"] = json!(format!("{routed:?}")),
        },
        Some(wanted) => {
            got["outcomes"] =
                judged(wanted, &routed, rule.as_ref().filter(|_| rewritable).map(|(_, rule)| &**rule))
        }
    }
    Rules::exact().ignore("rare_outcomes").outcome(then, &got)
}

/// Returns the wanted outcomes where what was seen agrees with them, otherwise what was seen.
fn judged(wanted: &Value, routed: &BTreeMap<Option<String>, String>, rule: Option<&RewriteRule>) -> Value {
    let mut stream = Stream::new(1, "rewrite");
    let mut shares: BTreeMap<Option<String>, u32> = BTreeMap::new();
    for _ in 0..DRAWS {
        let target = match rule {
            Some(rule) => rule.draw(&mut stream).filter(|model| !model.is_empty()).map(str::to_owned),
            None => routed.keys().next().cloned().flatten(),
        };
        *shares.entry(target).or_default() += 1;
    }
    let mut wanted = wanted.as_array().cloned().unwrap_or_default();
    for outcome in &mut wanted {
        let target = match outcome.get("error") {
            Some(_) => None,
            None => outcome["target_model"].as_str().map(str::to_owned),
        };
        let share = f64::from(shares.remove(&target).unwrap_or(0)) / f64::from(DRAWS);
        if (share - fraction(&outcome["probability"])).abs() > TOLERANCE {
            outcome["probability"] = json!(share);
        }
        if let (Some(_), Some(body)) = (outcome.get("body"), routed.get(&target)) {
            outcome["body"] = json!(body);
        } else if outcome.get("body").is_some() && fraction(&outcome["probability"]) > 0.1 {
            outcome["body"] = Value::Null;
        }
    }
    // What was drawn and is not wanted at all.
    wanted.extend(shares.into_keys().map(|target| json!({"target_model": target})));
    Value::Array(wanted)
}

/// Reads a probability, `n/d` where it is the recorded one.
fn fraction(probability: &Value) -> f64 {
    let parts = probability.as_str().and_then(|text| text.split_once('/'));
    let number = |text: &str| text.parse::<f64>().ok();
    parts
        .and_then(|(n, d)| Some(number(n)? / number(d)?))
        .or_else(|| probability.as_f64())
        .expect("a probability n/d")
}

/// Routes the request again and again; returns the forwarded body by target model, `None` = refused for want of one.
async fn outcomes(
    rt: &Rt,
    rewrites: ModelRewrites,
    requested: &(Headers, router::request::ParsedBody),
) -> BTreeMap<Option<String>, String> {
    let director = director(rt, rewrites);
    let mut seen = BTreeMap::new();
    for _ in 0..REQUESTS {
        let (headers, body) = (requested.0.clone(), requested.1.clone());
        let input = RequestInput { headers, body, ..RequestInput::default() };
        match director.handle_request(input).await.map_err(|refused| refused.error) {
            Ok(routed) => {
                let ForwardedBody::Bytes(bytes) = &routed.body else { panic!("bytes stay bytes") };
                let target = Some(routed.request().target_model.clone());
                seen.insert(target, String::from_utf8_lossy(bytes).into_owned());
            }
            Err(PluginError::Inference(error)) if error.message == "model not found in request body" => {
                seen.insert(None, String::new());
            }
            Err(error) => panic!("{error}"),
        }
    }
    seen
}

struct OneEndpoint(ModelRewrites);

impl Pool for OneEndpoint {
    fn endpoints(&self) -> Rc<Vec<Rc<Endpoint>>> {
        let metadata =
            EndpointMetadata { address: "10.0.0.1".into(), port: "80".into(), ..Default::default() };
        Rc::new(vec![Rc::new(Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() })])
    }

    fn priority(&self, _objective: &str) -> Option<i64> {
        None
    }

    fn rewrite_rule(&self, model: &str) -> Option<Rc<RewriteRule>> {
        self.0.rule(model).map(|(_, rule)| rule)
    }
}

fn director(rt: &Rt, rewrites: ModelRewrites) -> Director {
    let handle = Handle::new(rt.clone());
    let assembly = load("", "", &Registry::default(), &handle, &Options::default());
    let Assembly { scheduler, detector, .. } = assembly.expect("the built-in configuration loads");
    let admission = LegacyAdmission::new(detector.plugin);
    let pool = Rc::new(OneEndpoint(rewrites));
    Director::new(rt.clone(), pool, scheduler, admission, Hooks::default(), DirectorOptions::default())
}

fn rewrites(operations: &Value) -> ModelRewrites {
    let mut rewrites = ModelRewrites::default();
    for operation in operations.as_array().into_iter().flatten() {
        match (operation.get("set"), operation["delete"].as_str()) {
            (Some(object), _) => {
                let rules = object["rules"].as_array().into_iter().flatten().map(rule).collect();
                let name = object["name"].as_str().unwrap_or_default();
                rewrites.set(name, object["created_at_s"].as_i64().unwrap_or(0), rules);
            }
            (None, Some(name)) => rewrites.remove(name),
            (None, None) => panic!("an operation sets or deletes"),
        }
    }
    rewrites
}

fn rule(given: &Value) -> RewriteRule {
    let list = |name: &str| given[name].as_array().into_iter().flatten();
    RewriteRule {
        matches: list("matches").map(|model| model.as_str().map(str::to_owned)).collect(),
        targets: list("targets")
            .map(|target| RewriteTarget {
                model: target["model"].as_str().unwrap_or_default().to_owned(),
                weight: target["weight"].as_f64().map(|weight| weight as i32),
            })
            .collect(),
    }
}

/// Gives the model its name back as a server does: a stream chunk by chunk, anything else as a whole.
fn response(given: &Value) -> Value {
    let text = |name: &str| given[name].as_str().unwrap_or_default();
    let (incoming, target) = (text("incoming_model"), text("target_model"));
    let renames = incoming != target && !incoming.is_empty() && !target.is_empty();
    let rename = renames.then(|| ModelRename::new(incoming, target));
    let chunks: Vec<&str> =
        given["response_chunks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let streaming = text("response_content_type").contains("text/event-stream");
    let messages =
        if streaming { chunks.iter().map(|c| (*c).to_owned()).collect() } else { vec![chunks.concat()] };
    let last = messages.len() - 1;
    let bodies = messages.into_iter().enumerate().map(|(i, message)| {
        let message = Bytes::from(message);
        let sent = rename.as_ref().map_or_else(|| message.clone(), |rename| rename.apply(&message));
        json!({"body": String::from_utf8_lossy(&sent), "end_of_stream": i == last})
    });
    json!({"bodies": bodies.collect::<Vec<_>>()})
}
