use std::collections::BTreeMap;
use std::time::Duration;

use executor::{Fault, FaultKind, Link, Links, When};
use router::config::decode::{Cursor, Decode, Fields};
use router::config::problem::{Located, Problems, accepted_instead};

use super::fields::{expected, whole};
use crate::InputError;

/// How HTTP travels: `network` of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NetworkSpec {
    /// Requests are calls, with typed values beside them.
    #[default]
    Direct,
    /// Requests are HTTP/1.1 with JSON bodies, over simulated connections.
    Wire {
        /// How long opening a connection may take.
        connect_timeout: Option<Duration>,
        /// The links that are not perfect.
        links: Vec<LinkSpec>,
    },
}

/// An entry of `links`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// `router`, a group of engines or an engine; without it, whatever no other entry names.
    pub to: Option<Located<String>>,
    /// Where the entry stands.
    pub place: Located<()>,
    /// What the link is like.
    pub link: Link,
}

/// A network whose links know where they lead.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NetworkPlan {
    /// As [`NetworkSpec::Direct`].
    #[default]
    Direct,
    /// As [`NetworkSpec::Wire`].
    Wire {
        /// How long opening a connection may take.
        connect_timeout: Duration,
        /// The link from the clients to the router.
        router: Link,
        /// Links to engines, by their number over all groups, in the order of the scenario.
        engines: BTreeMap<usize, Link>,
        /// The link to every other engine.
        other: Link,
    },
}

const FIDELITIES: [&str; 2] = ["direct", "wire"];

impl Decode for NetworkSpec {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let fidelity = expected::<Located<String>>(fields, "fidelity");
            let connect_timeout = fields.optional("connect_timeout");
            let links = fields.optional::<Vec<LinkSpec>>("links").unwrap_or_default();
            let fidelity = fidelity?;
            match fidelity.as_str() {
                "wire" => Some(NetworkSpec::Wire { connect_timeout, links }),
                "direct" => {
                    for key in ["connect_timeout", "links"] {
                        if let Some(node) = fields.node(key) {
                            let message =
                                "there are no connections under `fidelity: direct`; accepted under `wire`";
                            fields.refuse(node.at, node.path, message);
                        }
                    }
                    Some(NetworkSpec::Direct)
                }
                other => {
                    let instead = accepted_instead(other, &FIDELITIES);
                    fields.refuse(
                        fidelity.at,
                        fidelity.path.clone(),
                        format!("unknown fidelity {other:?}{instead}"),
                    );
                    None
                }
            }
        })?
    }
}

impl Decode for LinkSpec {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let to = fields.optional("to");
            let bandwidth = whole(fields, "bytes_per_second", 1..=u32::MAX);
            let link = Link {
                latency: fields.or_default("latency"),
                jitter: fields.or_default("jitter"),
                bandwidth: bandwidth.map(|rate| u64::from(rate.value)),
                faults: fields
                    .optional::<Vec<Spelt>>("faults")
                    .unwrap_or_default()
                    .into_iter()
                    .map(|s| s.0)
                    .collect(),
            };
            LinkSpec { to, place: fields.place(), link }
        })
    }
}

/// The kinds, under their names.
const KINDS: [&str; 6] = ["refuse", "black-hole", "drop", "reset", "half-open", "slow-reader"];

/// A fault as a scenario spells it: `{kind: reset, at: 10s}`.
struct Spelt(Fault);

impl Decode for Spelt {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let kind = expected::<Located<String>>(fields, "kind");
            let rate = whole(fields, "bytes_per_second", 1..=u32::MAX);
            let when = when(fields);
            let kind = kind?;
            let refuse_rate = rate.as_ref().filter(|_| kind.value != "slow-reader");
            if let Some(rate) = refuse_rate {
                let message = format!("a {} has no rate; accepted with kind slow-reader", kind.value);
                fields.refuse(rate.at, rate.path.clone(), message);
            }
            let known = match kind.as_str() {
                "refuse" => FaultKind::Refuse,
                "black-hole" => FaultKind::BlackHole,
                "drop" => FaultKind::Drop,
                "reset" => FaultKind::Reset,
                "half-open" => FaultKind::HalfOpen,
                "slow-reader" => {
                    let rate = expected::<Located<u64>>(fields, "bytes_per_second")?;
                    FaultKind::SlowReader { rate: rate.value }
                }
                other => {
                    let instead = accepted_instead(other, &KINDS);
                    fields.refuse(
                        kind.at,
                        kind.path.clone(),
                        format!("unknown kind of fault {other:?}{instead}"),
                    );
                    return None;
                }
            };
            let when = when?;
            if let When::At { length: Some(_), .. } = when
                && !known.lasts()
                && let Some(node) = fields.node("for")
            {
                let message = format!(
                    "a {} happens at once; `for` is accepted with refuse, black-hole and slow-reader",
                    kind.value
                );
                fields.refuse(node.at, node.path, message);
            }
            Some(Spelt(Fault { kind: known, when }))
        })?
    }
}

/// Reads `at` with `for`, or `probability` with `within`.
fn when(fields: &mut Fields<'_, '_>) -> Option<When> {
    let at = fields.optional::<Located<Duration>>("at");
    let length = fields.optional::<Located<Duration>>("for");
    let probability = fields.optional::<Located<f64>>("probability");
    let within = fields.optional::<Located<Duration>>("within");
    let strays = match (&at, &probability) {
        (Some(_), None) => within.as_ref().map(|within| (within.with(()), "within", "probability")),
        (None, Some(_)) => length.as_ref().map(|length| (length.with(()), "for", "at")),
        _ => {
            let place = fields.place();
            let message =
                "a fault has either `at`, an instant of the run, or `probability`, of each exchange";
            fields.refuse(place.at, place.path, message);
            return None;
        }
    };
    if let Some((place, stray, partner)) = strays {
        fields.refuse(place.at, place.path, format!("`{stray}` is accepted beside `{partner}` only"));
    }
    match (at, probability) {
        (Some(at), _) => Some(When::At { start: at.value, length: length.map(|length| length.value) }),
        (None, Some(p)) if (0.0..=1.0).contains(&p.value) => {
            let within = within.map_or(Duration::ZERO, |within| within.value);
            Some(When::Exchange { probability: p.value, within })
        }
        (None, Some(p)) => {
            let message = format!("{} is out of range; accepted: from 0 to 1", p.value);
            fields.refuse(p.at, p.path, message);
            None
        }
        (None, None) => None,
    }
}

impl NetworkSpec {
    /// Finds where the links lead, among the groups of engines with these names and numbers of engines. Reports what
    /// does not fit, each with its place.
    pub(super) fn plan(
        &self,
        groups: &[(&str, u32)],
        mut report: impl FnMut(&Located<()>, InputError),
    ) -> NetworkPlan {
        let NetworkSpec::Wire { connect_timeout, links } = self else { return NetworkPlan::Direct };
        let mut named: BTreeMap<Option<&str>, &Link> = BTreeMap::new();
        for entry in links {
            let to = entry.to.as_ref().map(|to| to.as_str());
            let place = entry.to.as_ref().map_or_else(|| entry.place.clone(), |to| to.with(()));
            if let Some(to) = to.filter(|to| !leads_somewhere(to, groups)) {
                let mut accepted = vec![ROUTER.to_owned()];
                accepted.extend(
                    groups.iter().map(|(name, count)| format!("{name} or {name}-0 to {name}-{}", count - 1)),
                );
                let error =
                    InputError::new(format!("nothing is called {to:?}")).accepted(accepted.join(", "));
                report(&place, error);
            }
            if named.insert(to, &entry.link).is_some() {
                let what = to.map_or_else(|| "everything else".to_owned(), |to| format!("{to:?}"));
                report(&place, InputError::new(format!("two links lead to {what}")).accepted("one for each"));
            }
        }
        let other = named.get(&None).map_or_else(Link::default, |link| (*link).clone());
        let router = named.get(&Some(ROUTER)).map_or_else(|| other.clone(), |link| (*link).clone());
        let mut engines = BTreeMap::new();
        let all = groups.iter().flat_map(|(group, count)| (0..*count).map(move |index| (*group, index)));
        for (number, (group, index)) in all.enumerate() {
            let name = format!("{group}-{index}");
            if let Some(link) = named.get(&Some(name.as_str())).or_else(|| named.get(&Some(group))) {
                engines.insert(number, (*link).clone());
            }
        }
        let connect_timeout = connect_timeout.unwrap_or(Links::default().connect_timeout);
        NetworkPlan::Wire { connect_timeout, router, engines, other }
    }
}

/// What links call the router.
const ROUTER: &str = "router";

fn leads_somewhere(to: &str, groups: &[(&str, u32)]) -> bool {
    to == ROUTER
        || groups.iter().any(|(group, count)| {
            let index = to.strip_prefix(group).and_then(|rest| rest.strip_prefix('-'));
            to == *group || index.is_some_and(|index| (0..*count).any(|n| n.to_string() == index))
        })
}

#[cfg(test)]
mod tests;
