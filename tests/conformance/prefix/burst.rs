//! `prefix_misc_burst.jsonl`.

use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt, Sim};
use router::candidates::Candidates;
use router::data_key::DataKey;
use router::plugin::Handle;
use router::producers::burst_prefix_cache_producer::factory;
use router::request_control::{DataProducer, Produced};
use serde_json::{Value, json};
use tests::compare::Rules;

use super::given::{self, Endpoints};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let run = Sim::new(1).run(move |rt| async move { answer(&rt, &given).await });
    Rules::exact().outcome(&case["then"], &run.unwrap())
}

async fn answer(rt: &Rt, given: &Value) -> Value {
    let parameters = given::parameters(&given["parameters"]);
    let Ok(instance) = factory("burst", &parameters, &Handle::new(rt.clone())) else {
        return json!({"error": {"kind": "bad-parameter"}});
    };
    let key = instance.data.produces[0].key.clone();
    let producer = instance.roles.producer.expect("a producer");
    let timeout = producer.timeout().expect("a deadline of its own");
    let endpoints = Rc::new(given::endpoints(&given["endpoints"]));
    let arrivals = given["arrivals"].as_array().cloned().unwrap_or_default();
    let arrive_all = arrivals.into_iter().map(|arrival| {
        let (own_rt, producer) = (rt.clone(), Rc::clone(&producer));
        let (endpoints, key) = (Rc::clone(&endpoints), key.clone());
        rt.spawn_local(
            "arrival",
            async move { arrive(&own_rt, &*producer, &endpoints, &key, &arrival).await },
        )
    });
    // All are spawned before any is waited for: those of one instant arrive in their order.
    let tasks: Vec<_> = arrive_all.collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.expect("an arrival does not panic"));
    }
    json!({"key": key.as_str(), "produce_timeout_ms": timeout.as_millis(), "results": results})
}

async fn arrive(
    rt: &Rt,
    producer: &dyn DataProducer,
    endpoints: &Endpoints,
    key: &DataKey,
    arrival: &Value,
) -> Value {
    let at = |value: &Value| value.as_u64().map(|ms| Instant::ZERO + Duration::from_millis(ms));
    rt.sleep_until(at(&arrival["at_ms"]).expect("an instant")).await;
    let mut request = given::request(arrival);
    let names = given::names(&arrival["candidates"]);
    let mut candidates: Candidates = given::candidates(endpoints, &names);
    let produced = match producer.produce(&mut request, &mut candidates) {
        Produced::Ready(result) => Ok(result),
        Produced::Pending(pending) => match at(&arrival["cancel_at_ms"]) {
            Some(end) => rt.deadline(end, pending).await.map_err(|_| "cancelled"),
            None => Ok(pending.await),
        },
    };
    let done = (rt.now() - Instant::ZERO).as_millis();
    let kind = match produced {
        Ok(Ok(())) => None,
        Ok(Err(_)) => Some("batch-full"),
        Err(cancelled) => Some(cancelled),
    };
    // A request that has no answer has nothing attached either.
    let mut attributes = given::attributes(endpoints, &names, &candidates, key);
    for (_, attribute) in attributes.as_object_mut().into_iter().flatten() {
        if let Some(attribute) = attribute.as_object_mut() {
            attribute.remove("cached_block_count");
            attribute.remove("by_tier");
        }
    }
    let mut answer = json!({"done_ms": done, "attributes": attributes});
    if let Some(kind) = kind {
        answer["error"] = json!({"kind": kind});
    }
    answer
}
