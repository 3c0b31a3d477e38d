//! Arrivals of a trace whose clock is coarse.

use std::collections::VecDeque;
use std::time::Duration;

use super::Request;
use crate::InputError;

/// What the timestamps of a trace mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// Requests with one timestamp came between it and the next one: they are spread evenly over that time, in
    /// the order of the file. Mooncake's traces count in steps of 3 s, ten requests a step; taken to the letter
    /// they are bursts that no router sees one by one.
    #[default]
    Spread,
    /// Requests arrive exactly when the trace says, those with one timestamp at one instant.
    Recorded,
}

impl Timestamps {
    /// The names of the values, as a scenario and `--timestamps` give them.
    pub const NAMES: [&str; 2] = ["spread", "recorded"];

    /// Returns the value called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "spread" => Some(Timestamps::Spread),
            "recorded" => Some(Timestamps::Recorded),
            _ => None,
        }
    }
}

/// The longest time that requests with one timestamp are spread over, and the time for those that no later
/// timestamp follows.
const WIDEST: Duration = Duration::from_secs(3);

/// Most requests of one timestamp that are looked at together: memory stays bounded whatever the trace. Further
/// ones are spread over the same time again.
const MOST: usize = 1 << 16;

/// Spreads the requests of each timestamp over the time to the next one.
#[derive(Debug)]
pub(super) struct Spread<I> {
    requests: I,
    /// Requests that are ready to arrive.
    ready: VecDeque<Request>,
    /// What was read beyond them.
    ahead: Option<Result<Request, InputError>>,
}

impl<I: Iterator<Item = Result<Request, InputError>>> Spread<I> {
    pub(super) fn new(requests: I) -> Self {
        Spread { requests, ready: VecDeque::new(), ahead: None }
    }

    fn fill(&mut self, first: Request) {
        let time = first.arrival;
        self.ready.push_back(first);
        self.ahead = loop {
            match self.requests.next() {
                Some(Ok(request)) if request.arrival == time && self.ready.len() < MOST => {
                    self.ready.push_back(request);
                }
                ahead => break ahead,
            }
        };
        let until = match &self.ahead {
            Some(Ok(next)) if next.arrival > time => (next.arrival - time).min(WIDEST),
            _ => WIDEST,
        };
        let count = self.ready.len() as u32;
        for (position, request) in (0..).zip(&mut self.ready) {
            request.arrival = time + until * position / count;
        }
    }
}

impl<I: Iterator<Item = Result<Request, InputError>>> Iterator for Spread<I> {
    type Item = Result<Request, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            match self.ahead.take().or_else(|| self.requests.next())? {
                Ok(first) => self.fill(first),
                Err(error) => return Some(Err(error)),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Prompt;

    fn spread(times_ms: &[u64]) -> Vec<(u64, u64)> {
        let requests = times_ms.iter().enumerate().map(|(index, ms)| {
            let arrival = Duration::from_millis(*ms);
            Ok(Request {
                index: index as u64,
                arrival,
                prompt: Prompt::new([]),
                output_tokens: 1,
                tenant: None,
            })
        });
        let spread = Spread::new(requests).map(Result::unwrap);
        spread.map(|request| (request.index, request.arrival.as_millis() as u64)).collect()
    }

    #[test]
    fn a_timestamp_of_several_is_spread_up_to_the_next() {
        assert_eq!(spread(&[0, 0, 0, 3000, 5999]), [(0, 0), (1, 1000), (2, 2000), (3, 3000), (4, 5999)]);
    }

    #[test]
    fn long_gaps_and_the_end_spread_over_three_seconds() {
        assert_eq!(spread(&[0, 0, 60_000, 60_000]), [(0, 0), (1, 1500), (2, 60_000), (3, 61_500)]);
    }

    #[test]
    fn distinct_timestamps_stay() {
        assert_eq!(spread(&[5, 6, 9]), [(0, 5), (1, 6), (2, 9)]);
        assert!(spread(&[]).is_empty());
    }

    #[test]
    fn an_error_comes_behind_what_was_read_before_it() {
        let request = Request {
            index: 0,
            arrival: Duration::ZERO,
            prompt: Prompt::new([]),
            output_tokens: 1,
            tenant: None,
        };
        let rows = vec![Ok(request.clone()), Ok(request), Err(InputError::new("no row"))];
        let read: Vec<bool> = Spread::new(rows.into_iter()).map(|row| row.is_ok()).collect();
        assert_eq!(read, [true, true, false]);
    }
}
