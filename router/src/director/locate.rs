//! From request metadata to candidates (request-control spec 3).

use std::rc::Rc;

use rustc_hash::FxHashSet;
use serde_json::Value;

use super::headers::{SUBSET, SUBSET_NAMESPACE};
use crate::endpoint::Endpoint;
use crate::request_control::Metadata;

/// Returns the endpoints that the proxy allows: those whose address is in the subset hint, or all without one.
///
/// Elements that are not text do not count; the port of an element does not either, and an IPv6 address in
/// brackets equals none.
pub(super) fn locate(endpoints: &Rc<Vec<Rc<Endpoint>>>, metadata: &Metadata) -> Rc<Vec<Rc<Endpoint>>> {
    let hint = metadata.get(SUBSET_NAMESPACE).and_then(|fields| fields.get(SUBSET));
    let Some(Value::Array(subset)) = hint else { return Rc::clone(endpoints) };
    let addresses: FxHashSet<&str> = subset
        .iter()
        .filter_map(Value::as_str)
        .map(|entry| entry.rsplit_once(':').map_or(entry, |(address, _)| address))
        .collect();
    let allowed = |endpoint: &&Rc<Endpoint>| addresses.contains(endpoint.metadata.address.as_str());
    Rc::new(endpoints.iter().filter(allowed).cloned().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::endpoint::EndpointMetadata;

    fn located(hint: Option<Value>) -> Vec<String> {
        let endpoint = |address: &str| {
            let metadata = EndpointMetadata { address: address.to_owned(), ..EndpointMetadata::default() };
            Rc::new(Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() })
        };
        let pool = Rc::new(vec![endpoint("10.0.0.1"), endpoint("10.0.0.2"), endpoint("fd00::1")]);
        let mut metadata = Metadata::new();
        if let Some(Value::Object(fields)) = hint.map(|list| json!({ SUBSET: list })) {
            metadata.insert(SUBSET_NAMESPACE.to_owned(), fields);
        }
        locate(&pool, &metadata).iter().map(|e| e.metadata.address.clone()).collect()
    }

    #[test]
    fn a_subset_names_addresses() {
        let all = ["10.0.0.1", "10.0.0.2", "fd00::1"];
        for (hint, expected) in [
            (None, &all[..]),
            (Some(json!("10.0.0.1:80")), &all[..]),
            (Some(json!([])), &[]),
            (Some(json!(["10.0.0.2:8080", 12345])), &["10.0.0.2"]),
            (Some(json!(["10.0.0.1"])), &["10.0.0.1"]),
            (Some(json!([1, null])), &[]),
            (Some(json!(["[fd00::1]:8080"])), &[]),
        ] {
            assert_eq!(located(hint.clone()), expected, "{hint:?}");
        }
    }
}
