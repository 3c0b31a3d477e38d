//! `prefix_misc_scorers.jsonl`.

use executor::Sim;
use indexmap::IndexMap;
use router::candidates::Candidates;
use router::plugin::{Handle, Instance};
use router::producers::precise_prefix_cache_producer;
use router::request::InferenceRequest;
use router::scheduling::{SchedulingContext, Scorer};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::given::{self, Endpoints};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let plugin_type = given["plugin_type"].as_str().unwrap_or_default();
    let row = router::scheduling::scorers::TYPES.iter().find(|(name, _)| *name == plugin_type);
    let Some((_, factory)) = row else { return Outcome::NotBuilt(plugin_type.to_owned()) };
    let run = Sim::new(1).run(move |rt| async move {
        let handle = Handle::new(rt);
        for name in given::names(&given["existing_producers"]) {
            let parameters = router::plugin::Parameters::absent();
            let producer = precise_prefix_cache_producer::factory(name, &parameters, &handle);
            handle.add(name, producer.expect("no parameters are right"));
        }
        let name = given["plugin_name"].as_str().unwrap_or("s");
        match factory(name, &given::parameters(&given["parameters"]), &handle) {
            Err(_) => json!({"error": {"kind": "bad-parameter"}}),
            Ok(instance) if given.get("existing_producers").is_some() => description(&instance),
            Ok(instance) if given.get("steps").is_some() => script(&handle, &instance, &given),
            Ok(instance) => scored(&handle, &instance, &given),
        }
    });
    Rules::exact().outcome(&case["then"], &run.unwrap())
}

fn description(instance: &Instance) -> Value {
    let keys =
        |keys: &[router::plugin::TypedKey]| keys.iter().map(|key| json!(key.key.as_str())).collect::<Value>();
    json!({
        "reported_type": &*instance.id.plugin_type,
        "reported_name": &*instance.id.name,
        "requires": keys(&instance.data.requires),
        "produces": keys(&instance.data.produces),
    })
}

fn scored(handle: &Handle, instance: &Instance, given: &Value) -> Value {
    let scorer = instance.roles.scorer.as_ref().expect("a scorer");
    let endpoints = given::endpoints(&given["endpoints"]);
    json!({
        "scores": scores(handle, &**scorer, &InferenceRequest::default(), &endpoints),
        "category": format!("{:?}", scorer.category()),
        "reported_type": &*instance.id.plugin_type,
    })
}

fn scores(handle: &Handle, scorer: &dyn Scorer, request: &InferenceRequest, endpoints: &Endpoints) -> Value {
    let names: Vec<&str> = endpoints.keys().map(String::as_str).collect();
    let candidates = given::candidates(endpoints, &names);
    let survivors: Vec<_> = candidates.all().collect();
    let mut scores = vec![None; survivors.len()];
    let cx = SchedulingContext { request, candidates: &candidates, now: handle.rt().now() };
    scorer.score(&cx, &survivors, &mut scores);
    Value::Object(
        names.into_iter().map(str::to_owned).zip(scores.into_iter().map(|s| json!(s))).collect::<Map<_, _>>(),
    )
}

fn script(handle: &Handle, instance: &Instance, given: &Value) -> Value {
    let scorer = instance.roles.scorer.as_ref().expect("a scorer");
    let (mut known, mut answers): (Endpoints, Vec<Value>) = (IndexMap::default(), Vec::new());
    for step in given["steps"].as_array().into_iter().flatten() {
        let mut request =
            InferenceRequest { request_id: given::text(&step["request_id"]), ..InferenceRequest::default() };
        answers.push(match step["op"].as_str() {
            Some("score") => {
                let endpoints = given::endpoints(&step["endpoints"]);
                let answer = scores(handle, &**scorer, &request, &endpoints);
                known.extend(endpoints);
                json!({"scores": answer})
            }
            _ => {
                for name in
                    step["profiles"].as_object().into_iter().flatten().flat_map(|(_, n)| given::names(n))
                {
                    known.entry(name.to_owned()).or_insert_with(|| given::endpoint(&json!({"name": name})));
                }
                let result = given::scheduling_result(&known, step);
                let hook = instance.roles.pre_request.as_ref().expect("a PreRequest plugin");
                hook.pre_request(&mut request, &result, &Candidates::default()).expect("never fails");
                json!({"dump": instance.roles.state_dumper.as_ref().expect("a dumper").dump_state()})
            }
        });
    }
    json!({"steps": answers})
}
