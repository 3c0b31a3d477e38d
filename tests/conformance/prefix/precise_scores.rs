//! `precise_scores.jsonl`.

use std::rc::Rc;

use executor::Sim;
use router::candidates::Candidates;
use router::plugin::{Handle, Instance, Parameters};
use router::prefix::{LongestPrefix, PodMatch};
use router::producers::PrecisePrefixCacheProducer;
use router::scheduling::SchedulingContext;
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{given, index};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let run = Sim::new(1).run(move |rt| async move { answer(&Handle::new(rt), &given) });
    Rules::exact().outcome(&case["then"], &run.unwrap())
}

fn answer(handle: &Handle, given: &Value) -> Value {
    let parameters = given::parameters(&given["producer_parameters"]);
    let Ok(producer) = PrecisePrefixCacheProducer::build("p", &parameters, handle) else {
        return json!({"error": {"kind": "bad-parameter"}});
    };
    let mut request = given::request(&given["request"]);
    let keys = request.tokenized_prompt().map(|prompt| {
        producer.request_keys(&request.target_model, prompt).expect("nothing is wrong with a request")
    });
    let keys = keys.unwrap_or_default();
    let blocks = keys.prompts.first().cloned().unwrap_or_default();
    let (raw, endpoints) = (
        producer.with_index(|all| {
            for holding in given["holdings"].as_array().into_iter().flatten() {
                let block = blocks[holding["block"].as_u64().expect("an index") as usize];
                all.add(&[], &[block], &index::entries(&holding["entries"])).expect("there is room");
            }
            let mut pods: Vec<Rc<str>> = all.entries().map(|(_, entry)| Rc::clone(&entry.pod)).collect();
            pods.sort_unstable();
            pods.dedup();
            let names: Vec<&str> = pods.iter().map(|pod| &**pod).collect();
            let mut matches = vec![PodMatch::default(); names.len()];
            let weights = &producer.parameters().indexer.weights;
            LongestPrefix::default().add(all, &blocks, &names, weights, &mut matches);
            let found = names.iter().zip(matches).filter(|(_, found)| found.blocks > 0);
            found.map(|(pod, found)| ((*pod).to_owned(), json!(found.score))).collect::<Map<String, Value>>()
        }),
        given::endpoints(&given["endpoints"]),
    );
    let names: Vec<&str> = endpoints.keys().map(String::as_str).collect();
    let mut candidates = given::candidates(&endpoints, &names);
    let instance = instance(&producer);
    given::produce(&instance, &mut request, &mut candidates);
    let attributes = given::attributes(&endpoints, &names, &candidates, producer.key());
    let mut scorer_parameters = given["scorer_parameters"].clone();
    scorer_parameters["prefixMatchInfoProducerName"] = json!("p");
    let scorer = router::scheduling::scorers::prefix_cache_scorer::factory(
        "s",
        &Parameters::new(scorer_parameters),
        handle,
    );
    let Ok(scorer) = scorer else { return json!({"error": {"kind": "bad-scorer-parameter"}}) };
    let scorer = scorer.roles.scorer.expect("a scorer");
    let mut scores = scores(&*scorer, &request, &candidates, handle).into_iter();
    // Endpoints without metadata are no candidates of ours; nothing is attached to one of theirs, so it scores 0.
    let score = |name: &&str| endpoints[*name].as_ref().and_then(|_| scores.next()).unwrap_or(json!(0));
    let scores: Map<String, Value> =
        names.iter().map(|name| (*name).to_owned()).zip(names.iter().map(score)).collect();
    json!({"raw": raw, "attributes": attributes, "scores": scores})
}

fn instance(producer: &Rc<PrecisePrefixCacheProducer>) -> Instance {
    let roles = router::plugin::Roles { producer: Some(producer.clone()), ..Default::default() };
    Instance::new(PrecisePrefixCacheProducer::TYPE, "p", roles)
}

fn scores(
    scorer: &dyn router::scheduling::Scorer,
    request: &router::request::InferenceRequest,
    candidates: &Candidates,
    handle: &Handle,
) -> Vec<Value> {
    let survivors: Vec<_> = candidates.all().collect();
    let mut scores = vec![None; survivors.len()];
    let cx = SchedulingContext { request, candidates, now: handle.rt().now() };
    scorer.score(&cx, &survivors, &mut scores);
    scores.into_iter().map(|score| json!(score)).collect()
}
