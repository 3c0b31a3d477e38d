//! The router's own metrics: each family of the real registry is in the catalogue, as a metric or as its twin.

use router::metrics::Kind;
use router::metrics::catalogue::CATALOGUE;
use serde_json::{Value, json};
use tests::compare::Rules;

use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let name = case["name"].as_str().unwrap_or("");
    let metrics = CATALOGUE.iter().map(|metric| (metric.name, metric.labels, metric));
    let twins = CATALOGUE.iter().filter_map(|metric| Some((metric.twin?.name, metric.twin?.labels, metric)));
    let Some((_, labels, metric)) = metrics.chain(twins).find(|(own, ..)| *own == name) else {
        return Outcome::Failed(format!("no family {name} in the catalogue"));
    };
    let mut answer = json!({
        "name": name,
        "type": metric.kind.as_str(),
        "labels": labels,
        "registered_by": metric.owner,
    });
    if let Kind::Histogram(bounds) = metric.kind {
        answer["buckets"] = bounds.into();
    }
    Rules::exact().outcome(case, &answer)
}
