use proptest::prelude::*;

use super::*;

/// What one end or the network does.
#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Read(usize),
    Pass(u64),
    Slow(u64, u64),
    Swallow(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..30_000_usize).prop_map(Step::Write),
        4 => (1..30_000_usize).prop_map(Step::Read),
        3 => (0..20_000_000_u64).prop_map(Step::Pass),
        1 => (1..1_000_000_u64, 0..50_000_000_u64).prop_map(|(rate, length)| Step::Slow(rate, length)),
        1 => (0..50_000_000_u64).prop_map(Step::Swallow),
    ];
    proptest::collection::vec(step, 1..40)
}

fn shapes() -> impl Strategy<Value = Shape> {
    let bandwidth = proptest::option::of(1_000..10_000_000_u64);
    (0..10_000_000_u64, 0..5_000_000_u64, bandwidth, any::<u64>()).prop_map(
        |(latency, jitter, bandwidth, seed)| Shape {
            latency: Duration::from_nanos(latency),
            jitter: Duration::from_nanos(jitter),
            stream: Some(Stream::new(seed, "jitter")),
            bandwidth,
            patience: REPEATS,
            probes: seed % 2 == 0,
        },
    )
}

proptest! {
    /// Whatever the network does, the bytes that are read are those that were written, in order, none before it can be
    /// there, and all of them in the end.
    #[test]
    fn bytes_arrive_whole_in_order_and_not_early(shape in shapes(), steps in steps()) {
        let latency = shape.latency;
        let lane = Lane::new(shape);
        let mut now = Instant::ZERO;
        // The number of each byte tells when it was written: (bytes written by then, instant).
        let mut written_at: Vec<(usize, Instant)> = Vec::new();
        let (mut written, mut read) = (0_usize, Vec::new());
        let byte = |number: usize| (number % 251) as u8;
        for step in steps {
            match step {
                Step::Write(count) => {
                    let bytes: Vec<u8> = (written..written + count).map(byte).collect();
                    match lane.write(now, &[io::IoSlice::new(&bytes[..count / 2]), io::IoSlice::new(&bytes[count / 2..])]) {
                        Outcome::Done(taken) => {
                            prop_assert!(taken > 0 || count == 0);
                            written += taken;
                            written_at.push((written, now));
                        }
                        Outcome::Wait(_) => prop_assert_eq!(written - read.len(), CAPACITY),
                        Outcome::Failed(kind) => prop_assert!(false, "{}", kind),
                    }
                }
                Step::Read(most) => {
                    let before = read.len();
                    match lane.read(now, most, |bytes| read.extend_from_slice(bytes)) {
                        Outcome::Done(count) => {
                            prop_assert_eq!(read.len() - before, count);
                            prop_assert!(0 < count && count <= most);
                            let (_, at) = written_at.iter().find(|(upto, _)| *upto >= read.len()).unwrap();
                            prop_assert!(*at + latency <= now, "read before it can be there");
                        }
                        Outcome::Wait(until) => prop_assert!(until > now),
                        Outcome::Failed(kind) => prop_assert!(false, "{}", kind),
                    }
                }
                Step::Pass(nanos) => now += Duration::from_nanos(nanos),
                Step::Slow(rate, length) => lane.slow_down(rate, now + Duration::from_nanos(length)),
                Step::Swallow(length) => lane.swallow(now, now + Duration::from_nanos(length)),
            }
        }
        lane.finish(now);
        loop {
            match lane.read(now, usize::MAX, |bytes| read.extend_from_slice(bytes)) {
                Outcome::Done(0) => break,
                Outcome::Done(_) => {}
                Outcome::Wait(until) => {
                    prop_assert!(now < until && until < Instant::MAX, "the end comes");
                    now = until;
                }
                Outcome::Failed(kind) => prop_assert!(false, "{}", kind),
            }
        }
        prop_assert_eq!(read.len(), written);
        prop_assert!(read.iter().enumerate().all(|(number, found)| *found == byte(number)));
    }
}
