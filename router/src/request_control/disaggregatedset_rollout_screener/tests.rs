use serde_json::json;

use super::*;
use crate::scheduling::testing::{candidates, handle, labelled};

const REVISION: &str = "disaggregatedset.x-k8s.io/revision";

fn screener(mode: &str, roles: &[&str]) -> RolloutScreener {
    let parameters = json!({
        "scope": { "labelSelector": "app=x" },
        "headerSelectors": [
            { "name": "rev", "headerName": "X-Rev", "labelKey": REVISION, "mode": "strict" },
            { "name": "zone", "headerName": "x-zone", "labelKey": "zone", "mode": "prefer" },
        ],
        "revisionGating": { "mode": mode, "requireRoles": { "values": roles } },
    });
    RolloutScreener::new(&Parameters::new(parameters), handle().stream("screener")).unwrap()
}

impl RolloutScreener {
    fn pod(&self, name: &str, revision: &str, role: &str, ready: bool) {
        let labels = [("app", "x"), (REVISION, revision), ("disaggregatedset.x-k8s.io/role", role)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let event = PodEvent { name: name.to_owned(), ready, labels, ..PodEvent::default() };
        self.revisions.as_ref().expect("revisions are gated").borrow_mut().on_pod(&event);
    }

    fn pods(&self, revision: &str, role: &str, count: usize) {
        (0..count).for_each(|n| self.pod(&format!("{revision}-{role}-{n}"), revision, role, true));
    }
}

fn share(screener: &RolloutScreener, revision: &str) -> f64 {
    screener.shares().get(revision).copied().unwrap_or(0.0)
}

/// Request-control spec 10.
#[test]
fn shares_follow_pods_and_mode() {
    let of = |mode: &str, pods: &[(&str, usize, usize)]| {
        let screener = screener(mode, &["prefill", "decode"]);
        for (revision, prefill, decode) in pods {
            screener.pods(revision, "prefill", *prefill);
            screener.pods(revision, "decode", *decode);
        }
        screener
    };
    let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-12, "{got}, want {want}");
    let uneven = [("v1", 2, 8), ("v2", 1, 2)];
    close(share(&of("sum", &uneven), "v2"), 3.0 / 13.0);
    close(share(&of("max-role", &uneven), "v2"), 2.0 / 10.0);
    for mode in ["sum", "max-role"] {
        close(share(&of(mode, &[("v1", 8, 8), ("v2", 2, 2)]), "v2"), 0.2);
    }
    let prefill = of("max-role", &[("v1", 8, 1), ("v2", 2, 4), ("v3", 100, 0)]);
    close(share(&prefill, "v2"), 0.2);
    assert_eq!(share(&prefill, "v3"), 0.0, "a revision without decode cannot serve");

    let moving = of("sum", &[("v1", 2, 2), ("v2", 1, 1)]);
    close(share(&moving, "v1"), 2.0 / 3.0);
    moving.pod("v1-decode-0", "v2", "decode", true);
    close(share(&moving, "v1"), 0.5);
    moving.pod("v1-decode-0", "v2", "decode", false);
    close(share(&moving, "v1"), 0.6);
}

#[test]
fn a_request_stays_on_one_revision() {
    let screener = screener("sum", &["serve"]);
    let endpoints = [("a", "v1"), ("b", "v2"), ("c", "v1"), ("n", "")];
    let pool = candidates(endpoints.map(|(name, revision)| labelled(name, &[(REVISION, revision)])));
    let kept = |headers: &[(&str, &str)], u: f64| {
        let kept = screener.screen_with(&headers.iter().copied().collect(), &pool, || u);
        kept.iter().map(|c| pool.endpoint(*c).metadata.id.name.clone()).collect::<Vec<_>>()
    };
    assert!(kept(&[], 0.0).is_empty(), "before the first pods nothing may serve");
    screener.pods("v1", "serve", 3);
    screener.pods("v2", "serve", 1);
    assert_eq!(kept(&[], 0.0), ["a", "c"]);
    assert_eq!(kept(&[], 0.9), ["b"]);
    assert_eq!(kept(&[("x-rev", "v2")], 0.0), ["b"]);
    assert!(kept(&[("x-rev", "v3")], 0.0).is_empty(), "pinned to a revision without pods");
    assert_eq!(kept(&[("x-zone", "elsewhere"), ("x-rev", "")], 0.0), ["a", "c"], "these pin nothing");
}
