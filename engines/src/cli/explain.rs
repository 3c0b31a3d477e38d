use std::path::PathBuf;

use clap::Args;

use super::{Failure, print};
use crate::InputError;
use crate::report::ExplainedRun;

/// The arguments of `lockstep explain`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct ExplainArgs {
    /// The folder of a run, as `lockstep run --out DIR --explain` wrote it
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The request: its place in the workload, or its id in decisions.jsonl
    #[arg(value_name = "REQUEST", value_parser = request)]
    pub request: u64,
    /// Print JSON, one decision a line
    #[arg(long)]
    pub json: bool,
}

fn request(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("request-").unwrap_or(text);
    number.parse().map_err(|_| "accepted: a number from 0, such as 17 or request-17".to_owned())
}

impl ExplainArgs {
    /// Prints the decisions about the request, of which there are several where it was routed anew.
    ///
    /// # Errors
    /// A folder without decisions, a request that is not among them, and a run without reasons.
    pub fn run(&self) -> Result<(), Failure> {
        let run = ExplainedRun::open(&self.run)?;
        let decisions = run.decisions(self.request)?;
        if decisions.is_empty() {
            let folder = self.run.display();
            return Err(InputError::new(format!("{folder} has no decision about request {}", self.request))
                .accepted("a request of the run that the router decided about")
                .field("REQUEST")
                .into());
        }
        for decision in decisions {
            print(&match self.json {
                true => decision.json(),
                false => format!("{decision}\n"),
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_by_its_place_or_its_id() {
        assert_eq!((request("0"), request("request-17")), (Ok(0), Ok(17)));
        for wrong in ["", "-1", "request-", "x", "17.0"] {
            assert!(request(wrong).is_err(), "{wrong:?}");
        }
    }
}
