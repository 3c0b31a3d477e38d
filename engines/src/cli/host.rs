use clap::Args;
use executor::{Choices, Policy, Schedule, Sim, SimBuilder};

/// The flags that say how the simulation's host runs what is simulated.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct HostArgs {
    /// Permute the order of what is due at one instant, from this seed, instead of first in, first out
    #[arg(long, value_name = "N")]
    pub schedule_seed: Option<u64>,
    /// Permute only these choices of the schedule, as `lockstep explore` names them: 5.999000000/2 is the second at 5.999 s
    #[arg(long, value_name = "CHOICES", requires = "schedule_seed")]
    pub schedule_choices: Option<Choices>,
    /// End the run at the first thing that the watchdog finds, with exit code 3
    #[arg(long)]
    pub check: bool,
}

impl HostArgs {
    /// Returns a builder of simulations that these flags are laid over.
    pub fn builder(&self) -> SimBuilder {
        self.schedule().into_iter().fold(Sim::builder().policy(self.policy()), SimBuilder::schedule)
    }

    pub(super) fn policy(&self) -> Policy {
        if self.check { Policy::Strict } else { Policy::Report }
    }

    fn schedule(&self) -> Option<Schedule> {
        let schedule = Schedule::new(self.schedule_seed?);
        Some(self.schedule_choices.clone().into_iter().fold(schedule, Schedule::only))
    }

    /// Returns the flags of the command line that repeats the run.
    pub(super) fn words(&self) -> Vec<String> {
        let seed = self.schedule_seed.map(|seed| seed.to_string());
        let choices = self.schedule_choices.as_ref().map(ToString::to_string);
        let named = [("--schedule-seed", seed), ("--schedule-choices", choices)];
        let named = named.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        named.flatten().chain(self.check.then(|| "--check".to_owned())).collect()
    }
}
