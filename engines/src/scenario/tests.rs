use proptest::prelude::*;

use super::*;
use crate::engine::latency::Latency;
use crate::workload::synthetic::{Lengths, Process};

const SMALL: &str = "\
workload:
  trace: traces/t.jsonl
cluster:
  - count: 2
    model: qwen3-14b
";

fn parse(text: &str) -> Result<Scenario, Problems> {
    Scenario::parse("s.yaml", text, Path::new("folder"))
}

/// Everything that is wrong, whether the text or the plan says so.
fn wrong(text: &str) -> Vec<String> {
    match parse(text) {
        Err(problems) => problems.to_string().lines().map(str::to_owned).collect(),
        Ok(scenario) => scenario.plan().unwrap_err().iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_built_in_scenario_is_whole() {
    let plan = Scenario::built_in().unwrap_or_else(|problems| panic!("{problems}")).plan().unwrap();
    let WorkloadSource::Synthetic(synthetic) = &plan.workload.source else { panic!("synthetic") };
    assert_eq!(synthetic.requests(plan.seed).unwrap().count() as u64, synthetic.requests.get());
    assert_eq!(plan.router, RouterSource::BuiltIn);
    assert_eq!(plan.groups[0].describe(), "8 x qwen3-14b on H100 (TP 1, roofline)");
}

#[test]
fn what_is_left_out_has_its_default() {
    let scenario = parse(SMALL).unwrap();
    let WorkloadSource::Trace(trace) = &scenario.workload.source else { panic!("a trace") };
    assert_eq!(trace.value, Path::new("folder/traces/t.jsonl"), "paths count from the scenario's folder");
    assert_eq!((scenario.seed, scenario.workload.rate_scale, scenario.workload.requests), (42, 1.0, None));
    let plan = scenario.plan().unwrap();
    let group = &plan.groups[0];
    assert_eq!((group.name.as_str(), group.count), ("engine", 2));
    assert_eq!((group.config.num_gpu_blocks, group.config.block_size), (15909, 16));
    assert_eq!(group.config.max_model_len, 40960, "what the model was made for");
    assert_eq!(group.placement.gpu.name, "H100");
}

#[test]
fn the_longest_sequence_fits_the_cache() {
    let with = |overrides: &str| {
        let scenario = parse(&format!("{SMALL}    overrides: {{{overrides}}}\n")).unwrap();
        scenario.plan().unwrap().groups[0].config.max_model_len
    };
    assert_eq!(with("max_model_len: 131072"), 131_072);
    assert_eq!(with("max_model_len: 300000"), 15908 * 16);
    assert_eq!(with("num_gpu_blocks_override: 100, block_size: 32"), 99 * 32);
}

#[test]
fn step_times_come_from_where_the_group_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("h100.csv"),
        "prefill_tokens,decode_requests,decode_context,step_us\n0,0,0,5\n",
    )
    .unwrap();
    let latency = |text: &str| {
        let scenario = Scenario::parse("s.yaml", &format!("{SMALL}    latency: {text}\n"), folder.path());
        let scenario = scenario.map_err(|problems| problems.to_string())?;
        let plan = scenario.plan().map_err(|errors| errors[0].to_string())?;
        Ok::<_, String>((plan.groups[0].latency.clone(), plan.groups[0].latency_name.clone()))
    };
    let (fixed, _) = latency("{fixed_us: 7}").unwrap();
    assert_eq!(fixed, Latency::Fixed(7));
    let (means, name) = latency("{ttft_us: 20000, itl_us: 8000}").unwrap();
    assert_eq!(means, Latency::Means { ttft_us: 20_000, itl_us: 8000 });
    assert_eq!(name, "TTFT 20000 us, ITL 8000 us");
    let (table, name) = latency("{table: h100.csv}").unwrap();
    assert!(matches!(table, Latency::Table(_)) && name.ends_with("h100.csv"), "{name}");
    for (text, said) in [
        (
            "{ttft_us: 20000}",
            "s.yaml:6:14: cluster[0].latency: the keys name no latency; accepted: roofline,",
        ),
        ("{fixed_us: 1, itl_us: 2}", "the keys name no latency"),
        ("{}", "the keys name no latency"),
        ("{table: none.csv}", "none.csv: cannot read the table of step times"),
        ("[1]", "{table: FILE.csv}"),
    ] {
        let error = latency(text).expect_err(text);
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn tenants_are_told_apart_and_bad_ones_refused_with_their_place() {
    let text = |tenants: &str| {
        format!(
            "workload:\n  requests: 5\n  synthetic:\n    arrivals: {{process: constant, rate: 1}}\n    \
             prompt: {{type: constant, value: 1}}\n    output: {{type: constant, value: 1}}\n    tenants: {tenants}\n\
             cluster: [{{count: 1, model: qwen3-14b}}]\n"
        )
    };
    let scenario = parse(&text("[{name: a, share: 2, priority: -3}, {name: b}]")).unwrap();
    assert_eq!(scenario.workload.priorities().into_iter().collect::<Vec<_>>(), [-3, 0]);
    let at = "s.yaml:7:14: workload.synthetic.tenants";
    for (tenants, said) in [
        ("[]", format!("{at}: 0 tenants; accepted: 1 to 1000 tenants")),
        ("[{name: a}, {name: a}]", format!("{at}[1].name: \"a\" is there twice")),
        ("[{name: a b}]", format!("{at}[0].name: \"a b\" is no name")),
        ("[{name: a, share: -1}]", format!("{at}[0].share: -1 is no share")),
        ("[{share: 1}]", "tenants[0].name".to_owned()),
        ("[{name: a, priority: 3000000000}]", "tenants[0].priority: 3000000000 is no priority".to_owned()),
        ("[{name: a, weight: 3}]", "unknown field \"weight\"".to_owned()),
    ] {
        let errors = wrong(&text(tenants)).join("\n");
        assert!(errors.contains(&said), "{tenants}: {errors}");
    }
}

/// Model-server spec 5.1: the defaults of a step depend on the GPU.
#[test]
fn a_large_gpu_has_larger_steps() {
    for (gpu, expected) in [("H100", (1024, 8192)), ("A100-80", (256, 2048)), ("L40S", (256, 2048))] {
        let config = &parse(&format!("{SMALL}    gpu: {gpu}\n")).unwrap().plan().unwrap().groups[0].config;
        assert_eq!((config.max_num_seqs, config.max_num_batched_tokens), expected, "{gpu}");
    }
}

#[test]
fn a_router_is_a_path_or_written_in_place() {
    let router = |text: &str| parse(&format!("{SMALL}router: {text}\n")).unwrap().router;
    assert_eq!(router("epp.yaml"), RouterSource::File("folder/epp.yaml".into()));
    assert_eq!(router("null"), RouterSource::BuiltIn);
    let RouterSource::Inline { file, config } = router("\n  kind: EndpointPickerConfig") else {
        panic!("inline")
    };
    assert_eq!((file.as_str(), config.path.as_str()), ("s.yaml", "router"));
    assert_eq!(config.at.map(|at| (at.line, at.column)), Some((7, 3)));
}

#[test]
fn an_endpoint_picker_config_is_the_built_in_scenario_with_that_router() {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), "kind: EndpointPickerConfig\n").unwrap();
    let scenario = Scenario::open(file.path()).unwrap();
    assert_eq!(scenario.router, RouterSource::File(file.path().to_owned()));
    assert_eq!(scenario.cluster, Scenario::built_in().unwrap().cluster);
}

#[test]
fn every_distribution_can_be_written() {
    let lengths = |text: &str| {
        let text = format!(
            "workload: {{requests: 1, synthetic: {{arrivals: {{process: weibull, rate: 2, cv: 0.5}}, \
             prompt: {text}, output: {{type: constant, value: 1}}}}}}\ncluster: [{{count: 1, model: yi-34b}}]\n"
        );
        let scenario = parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
        let WorkloadSource::Synthetic(synthetic) = scenario.workload.source else { panic!("synthetic") };
        assert_eq!(synthetic.arrivals.process, Process::Weibull { cv: 0.5 });
        synthetic.prompt
    };
    const TOP: u32 = crate::workload::MAX_TOKENS;
    for (text, expected) in [
        ("{type: constant, value: 7}", Lengths::Constant { value: 7 }),
        ("{type: uniform, min: 1, max: 2}", Lengths::Uniform { min: 1, max: 2 }),
        (
            "{type: gaussian, mean: 5.5, std_dev: 2, max: 9}",
            Lengths::Gaussian { mean: 5.5, std_dev: 2.0, min: 1, max: 9 },
        ),
        ("{type: exponential, mean: 5}", Lengths::Exponential { mean: 5.0, min: 1, max: TOP }),
        ("{type: lognormal, mu: 5, sigma: 1}", Lengths::Lognormal { mu: 5.0, sigma: 1.0, min: 1, max: TOP }),
        (
            "{type: pareto_lognormal, alpha: 1, xm: 2, mu: 3, sigma: 4, mix_weight: 0.5}",
            Lengths::ParetoLognormal { alpha: 1.0, xm: 2.0, mu: 3.0, sigma: 4.0, mix_weight: 0.5 },
        ),
        (
            "{type: empirical, weights: {100: 1, 20: 3}}",
            Lengths::Empirical { weights: vec![(20, 3.0), (100, 1.0)] },
        ),
    ] {
        assert_eq!(lengths(text), expected);
    }
}

#[test]
fn everything_wrong_is_told_with_its_place() {
    let edit = |from: &str, to: &str| SMALL.replace(from, to);
    for (text, expected) in [
        (
            edit("count: 2", "count: 0\n    gpus: 1"),
            vec![
                "s.yaml:4:12: cluster[0].count: 0 is out of range; accepted: a whole number from 1 to 100000",
                "s.yaml:5:5: cluster[0].gpus: unknown field \"gpus\"; did you mean \"gpu\"?; accepted: name, count, model, gpu, tp, latency, overrides",
            ],
        ),
        (
            edit("cluster:", "clusters:"),
            vec![
                "s.yaml:1:1: cluster: missing field \"cluster\"",
                "s.yaml:3:1: clusters: unknown field \"clusters\"; did you mean \"cluster\"?; accepted: workload, cluster, router, network, allow_experimental_plugins, seed",
            ],
        ),
        (format!("{SMALL}---\nseed: 2\n"), vec!["s.yaml:6:1: a second document begins here; accepted: one"]),
        (
            edit(
                "trace: traces/t.jsonl",
                "requests: -1\n  synthetic: {arrivals: {process: poisson, rate: 1e308}, prompt: {type: constant, value: 1}, output: {type: constant, value: 1}}",
            ),
            vec![
                "s.yaml:3:50: workload.synthetic.arrivals.rate: 1e308 is out of range; accepted: 0.000001 to 1000000000",
                "s.yaml:2:13: workload.requests: expected an integer of at least 0, found the number -1",
            ],
        ),
        (
            edit("model: qwen3-14b", "model: 14"),
            vec!["s.yaml:5:12: cluster[0].model: expected a text, found the number 14"],
        ),
        (
            format!("{SMALL}    gpu: H10\n    latency: rooflin\n"),
            vec![
                "s.yaml:6:10: cluster[0].gpu: unknown GPU \"H10\"; accepted: A100-80, A100-SXM, H100, L40S; did you mean \"H100\"?",
            ],
        ),
        (
            format!("{SMALL}    latency: rooflin\n"),
            vec![
                "s.yaml:6:14: cluster[0].latency: unknown latency backend \"rooflin\"; accepted: roofline, trained-physics; did you mean \"roofline\"?",
            ],
        ),
        (
            edit("qwen3-14b", "llama-3.1-70b-instruct"),
            vec![
                "s.yaml:5:12: cluster[0].model: llama-3.1-70b-instruct does not fit: its weights take 131.4 GiB and its activations 5.5 GiB, 1 x H100 leave 72.0 GiB; accepted: tp of at least 2, or a GPU with more memory",
            ],
        ),
        (
            edit("  trace: traces/t.jsonl", "  rate_scale: 0"),
            vec![
                "s.yaml:2:15: workload.rate_scale: 0 scales no rate; accepted: 0.000001 to 1000000",
                "s.yaml:2:3: workload: accepted: either `trace` or `synthetic`",
            ],
        ),
        (
            edit(
                "trace: traces/t.jsonl",
                "synthetic: {arrivals: {process: gamma, rate: 0, cv: 1}, prompt: {type: uniform, min: 9, max: 3}, output: {type: constnt}}",
            ),
            vec![
                "s.yaml:2:48: workload.synthetic.arrivals.rate: 0 is out of range; accepted: 0.000001 to 1000000000",
                "s.yaml:2:96: workload.synthetic.prompt.max: 3 is below min 9; accepted: min or more",
                "s.yaml:2:115: workload.synthetic.output.type: unknown distribution \"constnt\"; did you mean \"constant\"?; accepted: constant, uniform, gaussian, exponential, lognormal, pareto_lognormal, empirical",
                "s.yaml:2:3: workload.requests: missing field \"requests\"",
            ],
        ),
        (
            format!(
                "{SMALL}  - {{count: 1, model: yi-34b, name: a}}\n  - {{count: 1, model: yi-34b, name: a}}\n"
            ),
            vec![
                "s.yaml:7:37: cluster[2].name: two groups are called \"a\"; accepted: a name of its own for each",
            ],
        ),
        (
            edit("qwen3-14b", "no/config.json"),
            vec![
                "s.yaml:5:12: cluster[0].model: folder/no/config.json: cannot read the model: No such file or directory (os error 2); accepted: a bundled model's name, or the path of a Hugging Face config.json",
            ],
        ),
        (
            edit("cluster:", "cluster: []\nx:"),
            vec![
                "s.yaml:3:10: cluster: no group of engines; at least one is needed",
                "s.yaml:4:1: x: unknown field \"x\"; accepted: workload, cluster, router, network, allow_experimental_plugins, seed",
            ],
        ),
        (
            format!("{SMALL}    overrides: {{gpu_memory_utilization: 2, scheduling_policy: lifo}}\n"),
            vec![
                "s.yaml:6:41: cluster[0].overrides.gpu_memory_utilization: 2 is out of range; accepted: above 0 and at most 1",
                "s.yaml:6:63: cluster[0].overrides.scheduling_policy: unknown scheduling policy \"lifo\"; accepted: fcfs, priority",
            ],
        ),
        (
            format!("{SMALL}router: 7\n"),
            vec![
                "s.yaml:6:9: router: expected the path of an EndpointPickerConfig, or one as a mapping, found the number 7",
            ],
        ),
    ] {
        assert_eq!(wrong(&text), expected);
    }
    let missing = Scenario::open(Path::new("no/such.yaml")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.yaml: cannot read the scenario: "), "{missing}");
}

proptest! {
    /// Whatever is written over a scenario, it is read or refused with a reason.
    #[test]
    fn no_edit_panics(at in 0usize..DEFAULT.len(), length in 0usize..40, text in "[-a-z0-9:{}\\[\\],.'\"#&*!|> \n]{0,12}") {
        let end = (at + length).min(DEFAULT.len());
        prop_assume!(DEFAULT.is_char_boundary(at) && DEFAULT.is_char_boundary(end));
        let edited = format!("{}{text}{}", &DEFAULT[..at], &DEFAULT[end..]);
        match parse(&edited) {
            Err(problems) => prop_assert!(!problems.to_string().is_empty()),
            Ok(scenario) => if let Err(errors) = scenario.plan() {
                prop_assert!(!errors.is_empty());
            },
        }
    }
}
