use super::*;

fn synthetic(shared_prefix: Option<SharedPrefix>) -> Synthetic {
    Synthetic {
        requests: NonZeroU64::new(2000).unwrap(),
        arrivals: Arrivals { process: Process::Poisson, rate: 10.0 },
        prompt: Lengths::Uniform { min: 1, max: 100 },
        output: Lengths::Constant { value: 8 },
        shared_prefix,
        tenants: None,
    }
}

fn shared(groups: u32, skew: f64) -> Option<SharedPrefix> {
    Some(SharedPrefix {
        groups: NonZeroU32::new(groups).unwrap(),
        tokens: NonZeroU32::new(512).unwrap(),
        skew,
    })
}

fn draw(synthetic: &Synthetic, seed: u64) -> Vec<Request> {
    synthetic.requests(seed).unwrap().collect()
}

#[test]
fn one_seed_gives_one_workload_in_the_order_of_time() {
    let synthetic = synthetic(shared(4, 1.0));
    let requests = draw(&synthetic, 1);
    assert_eq!(requests.len(), 2000);
    assert!(requests.is_sorted_by_key(|request| (request.arrival, request.index)));
    assert_eq!(requests, draw(&synthetic, 1));
    assert_ne!(requests, draw(&synthetic, 2));
}

#[test]
fn one_distribution_does_not_shift_the_draws_of_another() {
    let arrivals = |requests: Vec<Request>| requests.into_iter().map(|r| r.arrival).collect::<Vec<_>>();
    let plain = synthetic(None);
    let other = Synthetic { prompt: Lengths::Constant { value: 3 }, ..synthetic(shared(9, 0.0)) };
    assert_eq!(arrivals(draw(&plain, 1)), arrivals(draw(&other, 1)));
}

#[test]
fn a_group_shares_its_prefix_and_nothing_else() {
    let requests = draw(&synthetic(shared(4, 0.0)), 1);
    for request in &requests {
        let [prefix, own] = request.prompt.segments() else { panic!("two segments") };
        assert!(prefix.id < 4 && prefix.tokens == 512);
        assert_eq!(own.id, u64::MAX - request.index);
    }
}

#[test]
fn the_skew_decides_how_popular_the_first_prefix_is() {
    let share = |skew| {
        let requests = draw(&synthetic(shared(4, skew)), 1);
        requests.iter().filter(|r| r.prompt.segments()[0].id == 0).count() as f64 / requests.len() as f64
    };
    assert!((share(0.0) - 0.25).abs() < 0.03);
    // 1 / (1 + 1/2 + 1/3 + 1/4)
    assert!((share(1.0) - 0.48).abs() < 0.03);
}

#[test]
fn parameters_out_of_range_are_refused_by_name() {
    let refusal = |shared_prefix| synthetic(shared_prefix).requests(1).unwrap_err().to_string();
    assert_eq!(refusal(shared(1, -1.0)), "shared_prefix.skew: -1 is out of range; accepted: 0 to 10");
    assert_eq!(
        refusal(shared(2_000_000, 0.0)),
        "shared_prefix.groups: 2000000 is out of range; accepted: 1 to 1000000"
    );
}
