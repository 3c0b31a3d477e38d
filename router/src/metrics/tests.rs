use super::catalogue::CATALOGUE;
use super::*;

#[test]
fn the_catalogue_is_sorted_and_every_metric_can_be_taken() {
    let names: Vec<&str> = CATALOGUE.iter().map(|definition| definition.name).collect();
    assert!(names.is_sorted() && !names.is_empty());
    let registry = Registry::default();
    for definition in CATALOGUE {
        registry.metric(definition.name);
        if let Kind::Histogram(bounds) = definition.kind {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{}", definition.name);
        }
    }
    let twins = CATALOGUE.iter().filter(|definition| definition.twin.is_some()).count();
    assert_eq!(registry.families.borrow().len(), names.len() + twins);
    assert_eq!(registry.text(), "", "nothing is shown before it has a series");
}

#[test]
fn the_twin_is_written_with_its_own_labels() {
    let registry = Registry::default();
    let attempts = registry.metric("llm_d_epp_scheduler_attempts_total");
    attempts.inc(&["success", "m", "pod", "ns", "8000"]);
    // The same metric again is the same family.
    registry.metric("llm_d_epp_scheduler_attempts_total").inc(&["success", "m", "pod", "ns", "8000"]);
    attempts.inc(&["failure", "m", "", "", ""]);
    assert_eq!(
        registry.text(),
        "# HELP inference_extension_scheduler_attempts_total [ALPHA] Deprecated: use llm_d_epp_scheduler_attempts_total.\n\
         # TYPE inference_extension_scheduler_attempts_total counter\n\
         inference_extension_scheduler_attempts_total{status=\"failure\",target_model_name=\"m\",pod_name=\"\",namespace=\"\",port=\"\"} 1\n\
         inference_extension_scheduler_attempts_total{status=\"success\",target_model_name=\"m\",pod_name=\"pod\",namespace=\"ns\",port=\"8000\"} 2\n\
         # HELP llm_d_epp_scheduler_attempts_total [ALPHA] Scheduling attempts by result and endpoint.\n\
         # TYPE llm_d_epp_scheduler_attempts_total counter\n\
         llm_d_epp_scheduler_attempts_total{status=\"failure\",target_model_name=\"m\",endpoint_name=\"\",namespace=\"\",port=\"\"} 1\n\
         llm_d_epp_scheduler_attempts_total{status=\"success\",target_model_name=\"m\",endpoint_name=\"pod\",namespace=\"ns\",port=\"8000\"} 2\n"
    );
}

#[test]
fn a_histogram_counts_an_observation_on_its_bound_below_it() {
    let registry = Registry::default();
    let confirmation = registry.metric("llm_d_epp_flow_control_revocation_confirmation_seconds");
    for value in [0.005, 0.006, 10.0, 11.0] {
        confirmation.observe(&["a\"\\\n"], value);
    }
    let text = registry.text();
    let of = |bound: &str| {
        let series = format!("_bucket{{inference_pool=\"a\\\"\\\\\\n\",le=\"{bound}\"}} ");
        let line =
            text.lines().find(|line| line.contains(&series)).unwrap_or_else(|| panic!("{series} in {text}"));
        line.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(["0.005", "0.01", "5", "10", "+Inf"].map(of), ["1", "2", "2", "3", "4"]);
    assert!(text.contains("_sum{inference_pool=\"a\\\"\\\\\\n\"} 21.011\n"), "{text}");
    assert!(text.contains("_count{inference_pool=\"a\\\"\\\\\\n\"} 4\n"), "{text}");
}

#[test]
fn series_can_be_dropped_with_those_of_the_twin() {
    let registry = Registry::default();
    let size = registry.metric("llm_d_epp_flow_control_queue_size");
    for flow in ["a", "b"] {
        size.set(&[flow, "0", "pool", "m", "m"], 5.0);
    }
    size.remove(&[(0, "a"), (1, "0")]);
    assert_eq!(size.value(&["a", "0", "pool", "m", "m"]), None);
    assert_eq!(size.value(&["b", "0", "pool", "m", "m"]), Some(5.0));
    assert_eq!(registry.text().matches("fairness_id=\"a\"").count(), 0);
    assert_eq!(registry.text().matches("fairness_id=\"b\"").count(), 2);
}
