//! How near two endpoints are (scheduling spec 8.2).

use std::rc::Rc;

use super::PEER_ENDPOINT;
use crate::attributes::Topology;
use crate::data_key::DataKey;
use crate::endpoint::Endpoint;
use crate::request::InferenceRequest;

/// The tightest level that two endpoints share; tighter levels are less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The same host.
    Host,
    /// The same rack.
    Rack,
    /// The same zone.
    Zone,
    /// The same region.
    Region,
    /// Nothing known to be shared.
    None,
}

impl Level {
    /// Returns the level that a configuration calls `text`, exactly; one cannot ask for none.
    pub fn parse(text: &str) -> Option<Self> {
        [Level::Host, Level::Rack, Level::Zone, Level::Region].into_iter().find(|level| level.name() == text)
    }

    /// Returns the level's name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Host => "host",
            Level::Rack => "rack",
            Level::Zone => "zone",
            Level::Region => "region",
            Level::None => "none",
        }
    }
}

/// Returns the tightest level at which both are known and equal; each level counts by itself.
pub fn compare(peer: Option<&Topology>, candidate: Option<&Topology>) -> Level {
    let (Some(a), Some(b)) = (peer, candidate) else { return Level::None };
    let levels = [
        (&a.hostname, &b.hostname, Level::Host),
        (&a.rack, &b.rack, Level::Rack),
        (&a.zone, &b.zone, Level::Zone),
        (&a.region, &b.region, Level::Region),
    ];
    let shared = levels.into_iter().find(|(a, b, _)| !a.is_empty() && a == b);
    shared.map_or(Level::None, |(_, _, level)| level)
}

/// Returns the place of the endpoint that an earlier profile of this request picked, where both are known.
pub fn peer_topology<'a>(request: &'a InferenceRequest, key: &DataKey) -> Option<&'a Topology> {
    request.attributes.get::<Rc<Endpoint>>(PEER_ENDPOINT)?.attributes.get(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(hostname: &str, rack: &str, zone: &str, region: &str) -> Topology {
        let [hostname, rack, zone, region] = [hostname, rack, zone, region].map(str::to_owned);
        Topology { hostname, rack, zone, region }
    }

    /// Scheduling spec 8.2, the list under T.
    #[test]
    fn the_tightest_shared_level_counts() {
        let full = place("h1", "r1", "z1", "g1");
        for (other, want) in [
            (full.clone(), Level::Host),
            (place("h2", "r1", "z1", "g1"), Level::Rack),
            (place("", "r1", "z9", ""), Level::Rack),
            (place("h2", "r2", "z1", "g1"), Level::Zone),
            (place("", "", "z1", ""), Level::Zone),
            (place("h2", "r2", "z2", "g1"), Level::Region),
            (place("", "", "", ""), Level::None),
        ] {
            assert_eq!(compare(Some(&full), Some(&other)), want, "{other:?}");
        }
        let unknown = Topology::default();
        assert_eq!(compare(Some(&unknown), Some(&unknown)), Level::None);
        assert_eq!(compare(None, Some(&full)), Level::None);
        assert_eq!(compare(Some(&full), None), Level::None);
    }

    #[test]
    fn levels_are_named_exactly_and_none_is_not_asked_for() {
        assert_eq!(Level::parse("rack"), Some(Level::Rack));
        assert_eq!(Level::parse("Host").or(Level::parse("none")).or(Level::parse("")), None);
    }
}
