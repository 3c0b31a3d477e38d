use executor::{Rt, Sim};

use super::*;
use crate::plugin::{FactoryError, Handle, Parameters};

type Make = fn(&str, &Parameters, &Handle) -> Result<Instance, FactoryError>;

/// Gives `check` the policy that `factory` builds, on a clock that started at the Unix epoch.
fn with_policy(factory: Make, check: impl Fn(&dyn OrderingPolicy) + 'static) {
    let sim = Sim::builder().epoch(WallTime::from_unix_nanos(0)).build();
    sim.run(move |rt: Rt| async move {
        let instance = factory("", &Parameters::absent(), &Handle::new(rt)).unwrap();
        check(&*instance.roles.ordering_policy.unwrap());
    })
    .unwrap();
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn item(enqueued_ms: u64, ttl_ms: Option<u64>) -> Arrival<'static> {
    Arrival {
        enqueued: at(enqueued_ms),
        ttl: ttl_ms.map(Duration::from_millis),
        received: WallTime::from_unix_nanos(0),
        headers: None,
    }
}

#[test]
fn first_come_is_first_served() {
    with_policy(fcfs_ordering_policy::factory, |policy| {
        let key = |ms| policy.key(&item(ms, Some(1)));
        assert!(key(1) < key(2));
        assert_eq!(key(2), key(2), "of two that came together neither is first");
    });
}

#[test]
fn the_earliest_deadline_is_first_and_none_is_the_last() {
    with_policy(edf_ordering_policy::factory, |policy| {
        let key = |enqueued, ttl| policy.key(&item(enqueued, ttl));
        // t = 20 s; names as in flow-control spec 9.2.
        let (a, b) = (key(20_000, Some(10_000)), key(21_000, Some(5_000)));
        let (c, d, e) = (key(15_000, None), key(19_000, Some(6_000)), key(10_000, None));
        assert!(d < b && b < a && a < e && e < c);
        let beyond = policy.key(&Arrival { ttl: Some(Duration::from_nanos(FAR)), ..item(20_000, None) });
        assert!(e < beyond, "a deadline can lie behind the end of 64-bit nanoseconds");
    });
}

#[test]
fn a_promise_counts_from_when_the_headers_came() {
    with_policy(slo_deadline_ordering_policy::factory, |policy| {
        let now_ms = 100_000;
        let key = |received_ms: u64, headers: &[(&str, &str)]| {
            let headers: Headers = headers.iter().copied().collect();
            policy.key(&Arrival {
                received: WallTime::from_unix_nanos(received_ms * 1_000_000),
                headers: Some(&headers),
                ..item(0, None)
            })
        };
        let promise = |received_ms, text| key(received_ms, &[(PROMISED, text)]);
        const PROMISED: &str = "x-llm-d-slo-ttft-ms";
        let (a, b) = (promise(now_ms, "100"), promise(now_ms, "50"));
        assert!(b < a);
        assert!(promise(now_ms + 20, "50") < a);
        assert!(promise(now_ms - 1_000, "1050") < b, "of two deadlines the one that came first");
        let none = key(now_ms, &[]);
        assert!(a < none);
        for text in
            ["9223372036854775807", "9223372036855", "", "x", "-1", "1_000", "0x10", "1e3", "50.0", "80ms"]
        {
            assert_eq!(promise(now_ms, text), none, "{text:?}");
        }
        for text in ["200", "+200", "0200", " 200\n"] {
            assert_eq!(promise(now_ms, text).0, (now_ms + 200) * 1_000_000, "{text:?}");
        }
        assert_eq!(promise(now_ms, "-0").0, now_ms * 1_000_000);
        let both = key(now_ms, &[("x-slo-ttft-ms", "50"), (PROMISED, "200")]);
        assert_eq!(both.0, (now_ms + 200) * 1_000_000);
        assert_eq!(key(now_ms, &[("x-slo-ttft-ms", "150")]).0, (now_ms + 150) * 1_000_000);
        assert!(none < promise(now_ms, "9223372036854"), "a promise in range can lie behind no promise");
    });
}
