use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::Instant;

use super::parameters::ProgramAwareParameters;
use crate::flow_control::flows::{FlowKey, Flows};

/// What one token of a prompt counts as service.
const PROMPT_TOKEN: f64 = 1.0;
/// What one generated token counts.
const COMPLETION_TOKEN: f64 = 2.0;

/// What is known of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Mean wait of its requests in the queue. Unit: milliseconds.
    pub average_wait_ms: f64,
    /// Requests whose wait is known.
    pub wait_count: u64,
    /// Requests that were dispatched.
    pub dispatched: u64,
    /// Requests dispatched and not over; below zero where ends were seen of requests that were not.
    pub in_flight: i64,
    /// Service that it got; `None` until a pick or a completion has seen the program. Unit: tokens, weighted.
    pub attained_service: Option<f64>,
    /// From when on the service fades by half-lives.
    anchor: Option<Instant>,
    last_completion: Instant,
}

impl Program {
    fn new(now: Instant) -> Self {
        Program {
            average_wait_ms: 0.0,
            wait_count: 0,
            dispatched: 0,
            in_flight: 0,
            attained_service: None,
            anchor: None,
            last_completion: now,
        }
    }

    pub(super) fn dispatch(&mut self, waited: Option<Duration>) {
        self.in_flight += 1;
        self.dispatched += 1;
        if let Some(waited) = waited {
            self.wait_count += 1;
            self.average_wait_ms +=
                (waited.as_millis() as f64 - self.average_wait_ms) / self.wait_count as f64;
        }
    }

    pub(super) fn complete(&mut self, prompt_tokens: i64, completion_tokens: i64, now: Instant) {
        let service = self.attained_service.get_or_insert(0.0);
        *service += PROMPT_TOKEN * prompt_tokens as f64 + COMPLETION_TOKEN * completion_tokens as f64;
        self.anchor = Some(now);
        self.in_flight -= 1;
        self.last_completion = now;
    }

    /// Lets the service fade: by one pick, or by the time since the last.
    fn decay(&mut self, parameters: &ProgramAwareParameters, now: Instant) {
        let service = self.attained_service.get_or_insert(0.0);
        let half_life = parameters.las_half_life_seconds;
        if half_life <= 0.0 {
            *service *= parameters.las_decay_factor;
            return;
        }
        let Some(anchor) = self.anchor.filter(|anchor| *anchor < now) else {
            self.anchor.get_or_insert(now);
            return;
        };
        *service *= libm::pow(0.5, (now - anchor).as_secs_f64() / half_life);
        self.anchor = Some(now);
    }
}

/// The programs by id.
#[derive(Debug, Default)]
pub(super) struct Programs {
    programs: BTreeMap<Rc<str>, Program>,
    index_changed: bool,
}

/// A program with something waiting.
struct Contender {
    flow: FlowKey,
    service: f64,
    head_wait_ms: f64,
}

impl Programs {
    pub(super) fn get_mut(&mut self, id: &str, now: Instant) -> &mut Program {
        if !self.programs.contains_key(id) {
            self.index_changed = true;
            self.programs.insert(id.into(), Program::new(now));
        }
        self.programs.get_mut(id).expect("the program was just made")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Program)> {
        self.programs.iter().map(|(id, program)| (&**id, program))
    }

    pub(super) fn pick(
        &mut self,
        flows: &Flows,
        parameters: &ProgramAwareParameters,
        now: Instant,
    ) -> Option<FlowKey> {
        let mut contenders = Vec::with_capacity(flows.count());
        for (id, flow) in flows.iter() {
            let program = self.get_mut(id, now);
            let Some((head, _)) = flows.queue(flow).peek() else {
                program.attained_service.get_or_insert(0.0);
                if program.in_flight == 0 {
                    program.decay(parameters, now);
                }
                continue;
            };
            let service = *program.attained_service.get_or_insert(0.0);
            let head_wait_ms = (now - head.enqueued).as_millis() as f64;
            contenders.push(Contender { flow, service, head_wait_ms });
        }
        best(&contenders, parameters)
    }

    /// Drops the programs without requests in flight whose last completion is longer ago than `ttl`; returns them.
    pub(super) fn forget_idle(&mut self, now: Instant, ttl: Duration) -> Vec<Rc<str>> {
        let gone = |program: &Program| program.in_flight == 0 && now - program.last_completion > ttl;
        let forgotten: Vec<Rc<str>> =
            self.programs.iter().filter(|(_, program)| gone(program)).map(|(id, _)| Rc::clone(id)).collect();
        for id in &forgotten {
            self.programs.remove(id);
        }
        self.index_changed |= !forgotten.is_empty();
        forgotten
    }

    /// Returns whether no program has any service that could fade, and each is known.
    pub(super) fn have_no_service(&self) -> bool {
        self.programs.values().all(|program| program.attained_service == Some(0.0))
    }

    pub(super) fn index_changed(&mut self) {
        self.index_changed = true;
    }

    pub(super) fn take_index_changed(&mut self) -> bool {
        std::mem::take(&mut self.index_changed)
    }

    /// Returns Jain's index over the mean waits: 1 = all wait alike.
    pub(super) fn fairness_index(&self) -> f64 {
        let waits = self.programs.values().filter(|program| program.wait_count > 0);
        let (mut n, mut sum, mut squares) = (0u64, 0.0, 0.0);
        for wait in waits.map(|program| program.average_wait_ms) {
            n += 1;
            sum += wait;
            squares += wait * wait;
        }
        if n <= 1 || squares == 0.0 { 1.0 } else { sum * sum / (n as f64 * squares) }
    }
}

/// Returns the flow of the highest score, of equal ones the first.
fn best(contenders: &[Contender], parameters: &ProgramAwareParameters) -> Option<FlowKey> {
    let service = Range::of(contenders.iter().map(|contender| contender.service));
    let wait = Range::of(contenders.iter().map(|contender| contender.head_wait_ms));
    let mut best: Option<(f64, FlowKey)> = None;
    for contender in contenders {
        let score = parameters.las_weight_service * (1.0 - service.normalise(contender.service))
            + parameters.las_weight_head_wait * wait.normalise(contender.head_wait_ms);
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, contender.flow));
        }
    }
    best.map(|(_, flow)| flow)
}

/// The smallest and the largest of some values.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let all = Range { low: f64::INFINITY, high: f64::NEG_INFINITY };
        values.fold(all, |range, value| Range { low: range.low.min(value), high: range.high.max(value) })
    }

    /// Returns where `value` lies between them: 0 to 1, and the middle where they are one.
    fn normalise(self, value: f64) -> f64 {
        if self.high == self.low { 0.5 } else { (value - self.low) / (self.high - self.low) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(factor: f64, half_life: f64) -> ProgramAwareParameters {
        ProgramAwareParameters {
            las_decay_factor: factor,
            las_half_life_seconds: half_life,
            ..ProgramAwareParameters::default()
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn values_are_placed_between_the_smallest_and_the_largest() {
        for (value, low, high, place) in
            [(5.0, 10.0, 10.0, 0.5), (0.0, 0.0, 10.0, 0.0), (10.0, 0.0, 10.0, 1.0), (2.5, 0.0, 10.0, 0.25)]
        {
            assert_eq!(Range { low, high }.normalise(value), place);
        }
    }

    #[test]
    fn service_fades_by_picks_or_by_half_lives() {
        let mut program = Program { attained_service: Some(100.0), ..Program::new(at(0)) };
        program.decay(&parameters(0.5, 0.0), at(0));
        program.decay(&parameters(0.5, 0.0), at(0));
        assert_eq!(program.attained_service, Some(25.0));

        let mut program = Program { attained_service: Some(100.0), ..Program::new(at(0)) };
        let half_a_second = |program: &mut Program, ms| program.decay(&parameters(0.5, 1.0), at(ms));
        half_a_second(&mut program, 500);
        assert_eq!(program.attained_service, Some(100.0), "the first look only sets the anchor");
        half_a_second(&mut program, 1500);
        assert_eq!(program.attained_service, Some(50.0));
        half_a_second(&mut program, 1500);
        assert_eq!(program.attained_service, Some(50.0));
    }

    #[test]
    fn the_index_is_jains_over_programs_that_waited() {
        let index = |waits: &[Option<u64>]| {
            let mut programs = Programs::default();
            for (i, wait) in waits.iter().enumerate() {
                programs.get_mut(&i.to_string(), at(0)).dispatch(wait.map(Duration::from_millis));
            }
            programs.fairness_index()
        };
        assert_eq!(index(&[]), 1.0);
        assert_eq!(index(&[Some(10)]), 1.0);
        assert_eq!(index(&[Some(10), Some(10), Some(10), None]), 1.0);
        assert_eq!(index(&[Some(0), Some(0)]), 1.0);
        assert!(index(&[Some(10), Some(1000)]) < 0.9);
    }

    #[test]
    fn only_programs_that_are_idle_for_longer_are_forgotten() {
        let forgotten = |in_flight, ttl_ms| {
            let mut programs = Programs::default();
            programs.get_mut("a", at(0)).in_flight = in_flight;
            programs.forget_idle(at(10_000), Duration::from_millis(ttl_ms)).len()
        };
        assert_eq!(forgotten(0, 1_000), 1);
        assert_eq!(forgotten(0, 10_000), 0);
        assert_eq!(forgotten(1, 1_000), 0);
        assert_eq!(forgotten(-1, 1_000), 0, "an end without a beginning keeps the program");
    }
}
