//! From request metadata to candidates (request-control spec 3).

use std::fmt;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use serde_json::Value;

use super::Pool;
use super::headers::{SUBSET, SUBSET_NAMESPACE};
use crate::admission::EndpointList;
use crate::endpoint::Endpoint;
use crate::flow_control::candidates::Locator;
use crate::request_control::Metadata;

/// Finds candidates in the pool, anew each time.
#[derive(Clone)]
pub struct PoolLocator {
    pool: Rc<dyn Pool>,
    disable_subset_filter: bool,
}

impl PoolLocator {
    /// Returns the locator of `pool`, which heeds the proxy's hint unless that is disabled.
    pub fn new(pool: Rc<dyn Pool>, disable_subset_filter: bool) -> Self {
        PoolLocator { pool, disable_subset_filter }
    }

    /// Returns those of `endpoints` that the proxy allows, all where its hint is not heeded.
    pub fn subset(
        endpoints: &EndpointList,
        metadata: &Metadata,
        disable_subset_filter: bool,
    ) -> EndpointList {
        if disable_subset_filter { Rc::clone(endpoints) } else { locate(endpoints, metadata) }
    }
}

impl Locator for PoolLocator {
    fn locate(&self, metadata: &Metadata) -> EndpointList {
        Self::subset(&self.pool.endpoints(), metadata, self.disable_subset_filter)
    }

    fn refresh(&self, known: &EndpointList) -> EndpointList {
        let now = self.pool.endpoints();
        let same = |(a, b): (&Rc<Endpoint>, &Rc<Endpoint>)| {
            Rc::ptr_eq(&a.metadata, &b.metadata) || a.metadata.id == b.metadata.id
        };
        if Rc::ptr_eq(&now, known) || now.len() == known.len() && now.iter().zip(&**known).all(same) {
            return now;
        }
        // Both are in the order of the datastore, that of the identities.
        let newest = |endpoint: &Rc<Endpoint>| {
            let at = now.binary_search_by(|other| other.metadata.id.cmp(&endpoint.metadata.id));
            Rc::clone(at.map_or(endpoint, |at| &now[at]))
        };
        Rc::new(known.iter().map(newest).collect())
    }
}

impl fmt::Debug for PoolLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolLocator").finish_non_exhaustive()
    }
}

/// Returns the endpoints that the proxy allows: those whose address is in the subset hint, or all without one.
///
/// Elements that are not text do not count; the port of an element does not either, and an IPv6 address in
/// brackets equals none.
fn locate(endpoints: &EndpointList, metadata: &Metadata) -> EndpointList {
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
