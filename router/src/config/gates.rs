//! Feature gates (configuration spec 2.5).

use super::fault::Fault;
use super::problem::{Located, Problems, accepted_instead};

/// Which features are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// `flowControl`: queues in front of the scheduler.
    pub flow_control: bool,
    /// `haPopulateNonLeaderDatastore`: standby replicas follow the pool too.
    pub ha_populate_non_leader_datastore: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        FeatureGates { flow_control: false, ha_populate_non_leader_datastore: true }
    }
}

/// Names of all gates.
const NAMES: [&str; 2] = ["flowControl", "haPopulateNonLeaderDatastore"];

impl FeatureGates {
    /// Resolves a list of `name` and `name=value`: a later entry overrides an earlier one, parts behind a second
    /// `=` are ignored, and what is not listed has its default.
    pub fn resolve(entries: &[Located<String>], problems: &mut Problems<Fault>) -> Self {
        let mut gates = FeatureGates::default();
        for entry in entries {
            let mut parts = entry.value.split('=');
            let name = parts.next().unwrap_or_default();
            let value = parts.next();
            let gate = match name {
                "flowControl" => &mut gates.flow_control,
                "haPopulateNonLeaderDatastore" => &mut gates.ha_populate_non_leader_datastore,
                _ => {
                    let instead = accepted_instead(name, &NAMES);
                    problems.push_at(
                        Fault::UnknownFeatureGate,
                        entry,
                        format!("feature gate {name:?} is unknown{instead}"),
                    );
                    continue;
                }
            };
            match value.map_or(Some(true), switch) {
                Some(on) => *gate = on,
                None => problems.push_at(
                    Fault::BadFeatureGateValue,
                    entry,
                    format!(
                        "{:?} is not a valid value for the feature gate {name}; accepted: true, t, 1, false, f, 0",
                        value.unwrap_or_default()
                    ),
                ),
            }
        }
        gates
    }

    /// Returns each gate's name and whether it is on.
    pub fn all(&self) -> [(&'static str, bool); 2] {
        [(NAMES[0], self.flow_control), (NAMES[1], self.ha_populate_non_leader_datastore)]
    }
}

fn switch(value: &str) -> Option<bool> {
    match value.trim().to_lowercase().as_str() {
        "1" | "t" | "true" => Some(true),
        "0" | "f" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(entries: &[&str]) -> Result<(bool, bool), Fault> {
        let entries: Vec<_> = entries.iter().map(|e| Located::nowhere(e.to_string())).collect();
        let mut problems = Problems::new("");
        let gates = FeatureGates::resolve(&entries, &mut problems);
        match problems.list().first() {
            Some(problem) => Err(problem.kind),
            None => Ok((gates.flow_control, gates.ha_populate_non_leader_datastore)),
        }
    }

    #[test]
    fn entries_switch_gates_on_and_off() {
        for (entries, gates) in [
            (&[][..], (false, true)),
            (&["flowControl"], (true, true)),
            (&["flowControl= TRUE ", "haPopulateNonLeaderDatastore=0"], (true, false)),
            (&["flowControl=t", "flowControl=f"], (false, true)),
            (&["flowControl=true=false"], (true, true)),
        ] {
            assert_eq!(resolve(entries), Ok(gates), "{entries:?}");
        }
    }

    #[test]
    fn unknown_gates_and_values_are_refused() {
        for (entry, fault) in [
            ("FlowControl", Fault::UnknownFeatureGate),
            ("flowControl ", Fault::UnknownFeatureGate),
            ("", Fault::UnknownFeatureGate),
            ("flowControl=", Fault::BadFeatureGateValue),
            ("flowControl=yes", Fault::BadFeatureGateValue),
        ] {
            assert_eq!(resolve(&[entry]), Err(fault), "{entry:?}");
        }
    }
}
