//! The loader's rules, as the specifications state them: what is added, what is refused.

use super::*;

/// Returns what is wrong with a configuration, each kind once; experimental plugins are allowed.
fn faults(text: &str) -> Vec<Fault> {
    let mut faults = match load_with(&Registry::default(), text, &lenient()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.list().iter().map(|problem| problem.kind).collect(),
    };
    faults.dedup();
    faults
}

fn lenient() -> Options {
    Options { allow_experimental: true, ..Options::default() }
}

fn loaded(text: &str) -> Assembly {
    load_with(&Registry::default(), text, &lenient()).unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

/// Scheduling spec 3.1, the list under T; configuration spec 2.4, the facts of upstream's tests.
#[test]
fn weights_handlers_and_pickers_are_added_where_they_are_missing() {
    let plan = |plugins: &str, entries: &str| {
        let text = format!("plugins: [{plugins}]\nschedulingProfiles: [{{name: p, plugins: [{entries}]}}]");
        let assembly = loaded(&text);
        let plan = assembly.profiles[0].clone();
        (plan.scorers, plan.picker, assembly.profile_handler)
    };
    let queue = |weight| vec![("queue-scorer".into(), weight)];
    let (max, single): (Rc<str>, Rc<str>) = ("max-score-picker".into(), "single-profile-handler".into());
    let scorer = "{type: queue-scorer}";
    for (plugins, entries, scorers, picker) in [
        (scorer.to_owned(), "{pluginRef: queue-scorer}", queue(1.0), &max),
        (
            format!("{scorer}, {{type: max-score-picker}}"),
            "{pluginRef: max-score-picker}, {pluginRef: queue-scorer}",
            queue(1.0),
            &max,
        ),
        (scorer.to_owned(), "{pluginRef: queue-scorer, weight: 50}", queue(50.0), &max),
        (scorer.to_owned(), "{pluginRef: queue-scorer, weight: 0}", queue(0.0), &max),
        (scorer.to_owned(), "{pluginRef: queue-scorer, weight: -2}", queue(-2.0), &max),
        (
            format!("{{type: random-picker}}, {scorer}, {{type: max-score-picker}}"),
            "{pluginRef: queue-scorer}",
            queue(1.0),
            &"random-picker".into(),
        ),
        (
            format!("{{type: random-picker}}, {scorer}, {{type: max-score-picker}}"),
            "{pluginRef: max-score-picker}",
            vec![],
            &max,
        ),
        // Twice is double, and what is no part of a profile is passed over.
        (
            scorer.to_owned(),
            "{pluginRef: queue-scorer}, {pluginRef: queue-scorer, weight: 2}",
            [queue(1.0), queue(2.0)].concat(),
            &max,
        ),
        (
            format!("{scorer}, {{type: single-profile-handler}}"),
            "{pluginRef: single-profile-handler}, {pluginRef: queue-scorer}",
            queue(1.0),
            &max,
        ),
    ] {
        let want = (scorers, Rc::clone(picker), Rc::clone(&single));
        assert_eq!(plan(&plugins, entries), want, "{plugins} {entries}");
    }
    let implicit = loaded(
        "plugins: [{type: decode-filter}, {type: utilization-detector}, {type: context-length-aware}]",
    );
    let filters: [Rc<str>; 3] =
        ["decode-filter", "utilization-detector", "context-length-aware"].map(Into::into);
    assert_eq!(implicit.profiles[0].filters, filters, "a detector that is declared filters, in file order");
    assert_eq!(implicit.profiles[0].scorers, [("context-length-aware".into(), 1.0)]);
    let alone = &loaded("plugins: [{type: decode-filter}]").profiles[0].filters;
    assert_eq!(alone.len(), 1, "the detector that is added by default does not");
}

/// Scheduling spec 3.1, the list under T; configuration spec 2.3, the steps of the table.
#[test]
fn what_does_not_hold_together_is_refused() {
    let profiles =
        |plugins: &str, profiles: &str| format!("plugins: [{plugins}]\nschedulingProfiles: [{profiles}]\n");
    let pickers = "{type: max-score-picker}, {type: random-picker}";
    let handlers = "{type: single-profile-handler}, {type: data-parallel-profile-handler}";
    let scorer = "{type: queue-scorer}";
    for (text, fault) in [
        ("plugins: [{name: a}]".to_owned(), Fault::PluginWithoutType),
        ("plugins: [{type: queue-scorer}, {type: queue-scorer}]".to_owned(), Fault::DuplicatePluginName),
        ("plugins: [{type: no-such-scorer}]".to_owned(), Fault::UnknownPluginType),
        (
            profiles(
                pickers,
                "{name: p, plugins: [{pluginRef: max-score-picker}, {pluginRef: random-picker}]}",
            ),
            Fault::SecondPicker,
        ),
        (profiles(handlers, "{name: p}"), Fault::MultipleProfileHandlers),
        (profiles(scorer, "{name: p}, {name: q}"), Fault::NoProfileHandler),
        (
            profiles("{type: single-profile-handler}", "{name: p}, {name: q}"),
            Fault::SingleHandlerWithManyProfiles,
        ),
        (profiles(scorer, "{plugins: [{pluginRef: queue-scorer}]}"), Fault::ProfileWithoutName),
        (profiles(scorer, "{name: p}, {name: p}"), Fault::DuplicateProfileName),
        (profiles(scorer, "{name: p, plugins: [{weight: 1}]}"), Fault::ProfileEntryWithoutRef),
        (profiles(scorer, "{name: p, plugins: [{pluginRef: ghost}]}"), Fault::UndefinedProfileRef),
        (
            "flowControl: {saturationDetector: {pluginRef: ghost}}".to_owned(),
            Fault::UndefinedSaturationDetector,
        ),
        (
            "plugins: [{type: queue-scorer}]\nflowControl: {saturationDetector: {pluginRef: queue-scorer}}"
                .to_owned(),
            Fault::WrongSaturationDetectorRole,
        ),
        ("requestHandler: {parsers: [{pluginRef: ghost}]}".to_owned(), Fault::UnknownDefaultPluginType),
        (
            "plugins: [{type: queue-scorer}]\nrequestHandler: {parsers: [{pluginRef: queue-scorer}]}"
                .to_owned(),
            Fault::WrongParserRole,
        ),
        ("dataLayer: {sources: [{pluginRef: ghost}]}".to_owned(), Fault::UndefinedDataSource),
        (
            "dataLayer: {sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: ghost}]}]}\n\
             plugins: [{type: metrics-data-source}]"
                .to_owned(),
            Fault::UndefinedExtractor,
        ),
        ("dataLayer: {discovery: {pluginRef: ghost}}".to_owned(), Fault::UndefinedDiscovery),
        ("dataLayer: {injectDefaults: false}".to_owned(), Fault::NoSources),
        ("plugins: [{type: token-load-scorer}]".to_owned(), Fault::NoDefaultProducer),
        ("plugins: [{type: multicluster-queue-scorer}]".to_owned(), Fault::NoDefaultProducer),
        ("featureGates: [flowControl]\nflowControl: {maxBytes: -1}".to_owned(), Fault::NegativeQuantity),
        (
            "featureGates: [flowControl]\nflowControl: {priorityBands: [{priority: 1}, {priority: 1}]}"
                .to_owned(),
            Fault::DuplicatePriority,
        ),
        ("featureGates: [flowControl]\nflowControl: {defaultRequestTTL: -1s}".to_owned(), Fault::NegativeTtl),
        (
            "featureGates: [flowControl]\nflowControl: {usageLimitPolicyPluginRef: ghost}".to_owned(),
            Fault::UndefinedPolicy,
        ),
        (
            "featureGates: [flowControl]\n\
             flowControl: {priorityBands: [{priority: 1, fairnessPolicyRef: fcfs-ordering-policy}]}"
                .to_owned(),
            Fault::WrongPolicyRole,
        ),
    ] {
        assert_eq!(faults(&text), [fault], "{text}");
    }
}

/// Configuration spec 2.4, the facts of upstream's tests: sources of the data layer.
#[test]
fn the_default_source_is_added_unless_one_of_its_name_is_there() {
    let polled = |text: &str| {
        let sources = loaded(text).data_layer.polling;
        sources.iter().map(|p| (p.source.id.name.to_string(), p.extractors.len())).collect::<Vec<_>>()
    };
    let default = |extractors| ("metrics-data-source".to_owned(), extractors);
    assert_eq!(polled("dataLayer: {}"), [default(1)]);
    assert_eq!(
        polled(
            "plugins: [{type: metrics-data-source}]\ndataLayer: {sources: [{pluginRef: metrics-data-source}]}"
        ),
        [default(0)],
        "without extractors nothing is extracted"
    );
    let pods = "plugins: [{type: k8s-notification-source, parameters: {version: v1, kind: Pod}}]\n\
                dataLayer: {sources: [{pluginRef: k8s-notification-source}]}";
    assert_eq!(polled(pods), [default(1)]);
    assert_eq!(loaded(pods).data_layer.notification_sources.len(), 1);
    // With the in-flight producer there is something to listen to, so no source need poll.
    let none = "plugins: [{type: inflight-load-producer}]\ndataLayer: {injectDefaults: false}";
    assert_eq!(polled(none), []);
    assert!(loaded(none).plugin("metrics-data-source").is_none());
}

/// Configuration spec 1.5: limits of bands, and which bands there are.
#[test]
fn bands_have_the_systems_limits_where_they_say_nothing() {
    let bands = |section: &str| {
        let assembly = loaded(&format!("featureGates: [flowControl]\nflowControl: {section}"));
        let settings = assembly.flow_control.expect("the gate is on");
        let registry = settings.registry;
        let limits =
            registry.bands.iter().map(|b| (b.priority, b.max_bytes, b.max_requests)).collect::<Vec<_>>();
        let negative = registry.default_negative_band.map(|b| (b.max_bytes, b.max_requests));
        (limits, negative, settings.controller.default_request_ttl.as_secs())
    };
    const BYTES: u64 = 1_000_000_000;
    for (section, limits, negative, ttl) in [
        ("{}", vec![(0, BYTES, 5000)], None, 60),
        ("{defaultRequestTTL: 0s}", vec![(0, BYTES, 5000)], None, 0),
        (
            "{priorityBands: [{priority: 3, maxBytes: '0'}]}",
            vec![(3, BYTES, 5000), (0, BYTES, 5000)],
            None,
            60,
        ),
        ("{priorityBands: [{maxRequests: 7}]}", vec![(0, BYTES, 7)], None, 60),
        ("{defaultPriorityBand: {maxRequests: 9, priority: 4}}", vec![(0, BYTES, 9)], None, 60),
        (
            "{defaultPriorityBand: {maxRequests: 9}, defaultNegativePriorityBand: {maxBytes: 1k}}",
            vec![(0, BYTES, 9)],
            Some((1000, 5000)),
            60,
        ),
        (
            "{defaultNegativePriorityBand: {maxRequests: 0}, priorityBands: [{priority: -1}, {priority: 8}]}",
            vec![(8, BYTES, 5000), (0, BYTES, 5000), (-1, BYTES, 5000)],
            Some((BYTES, 5000)),
            60,
        ),
    ] {
        assert_eq!(bands(section), (limits, negative, ttl), "{section}");
    }
}

/// Configuration spec 2.7: what upstream's integration tests find in the effective list.
#[test]
fn effective_lists_hold_what_their_plugins_require() {
    let required = |text: &str| {
        let added = loaded(text).plugins.into_iter().filter(|p| p.origin == Origin::Required);
        added.map(|p| p.name.to_string()).collect::<Vec<_>>()
    };
    let (approx, tokens) = ("approx-prefix-cache-producer", "token-producer");
    for (text, want) in [
        (
            "plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: prefix-cache-scorer}, \
             {type: no-hit-lru-scorer}]",
            &[approx, tokens][..],
        ),
        (
            "plugins: [{type: approx-prefix-cache-producer, name: cpu-prefix-cache-producer}, \
             {type: prefix-cache-scorer, name: cpu, parameters: {prefixMatchInfoProducerName: cpu-prefix-cache-producer}}, \
             {type: prefix-cache-scorer}]",
            &[approx, tokens],
        ),
        (
            "plugins: [{type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}, \
             {type: prefix-based-pd-decider}]\nschedulingProfiles: [{name: decode}, {name: prefill}]",
            &[approx, tokens],
        ),
        (
            "plugins: [{type: prefix-based-pd-decider}, {type: pd-profile-handler}, {type: prefill-header-handler}]\n\
             schedulingProfiles: [{name: decode}, {name: prefill}]",
            &[approx, tokens],
        ),
        (
            "plugins: [{type: passthrough-parser}, {type: active-request-scorer}, {type: session-affinity-scorer}]\n\
             requestHandler: {parsers: [{pluginRef: passthrough-parser}]}",
            &["inflight-load-producer", tokens],
        ),
        ("plugins: [{type: queue-scorer}]", &[]),
    ] {
        let mut added = required(text);
        added.sort_unstable();
        assert_eq!(added, want, "{text}");
    }
    let detector = loaded(
        "featureGates: [flowControl]\nplugins: [{type: concurrency-detector}]\n\
         flowControl: {saturationDetector: {pluginRef: concurrency-detector}, maxBytes: 10Gi, maxRequests: 1k, \
         defaultRequestTTL: 60s, priorityBands: [{priority: 100, maxRequests: 500}, {priority: 0, maxRequests: 200}, \
         {priority: -10, maxRequests: 50}]}",
    );
    let registry = detector.flow_control.expect("the gate is on").registry;
    assert_eq!((registry.max_bytes, registry.max_requests), (10 << 30, 1000));
    let bands: Vec<(i64, u64)> = registry.bands.iter().map(|b| (b.priority, b.max_requests)).collect();
    assert_eq!(bands, [(100, 500), (0, 200), (-10, 50)]);
    assert_eq!(&*detector.saturation_detector, "concurrency-detector");
}
