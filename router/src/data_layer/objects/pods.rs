//! Pods and the endpoints that they offer (configuration spec 7.4).

use std::collections::BTreeMap;

use super::ObjectName;
use crate::endpoint::{EndpointId, EndpointMetadata};

/// Says which target ports of a pod are in use, the older one where the newer is missing.
const ACTIVE_PORTS: [&str; 2] = ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"];

/// A pool: which pods belong to it, and where they listen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolSpec {
    /// Labels that a pod must have; none = every pod.
    pub selector: BTreeMap<String, String>,
    /// Ports, one a data-parallel rank, in order of the ranks.
    pub target_ports: Vec<u16>,
}

impl PoolSpec {
    /// Returns whether the pod belongs to the pool.
    pub fn selects(&self, pod: &Pod) -> bool {
        self.selector.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
    }
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its address.
    pub ip: String,
    /// Address of its node.
    pub host_ip: String,
    /// It is ready, and not about to be deleted.
    pub ready: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// The endpoint of one target port of a pod.
#[derive(Clone, Debug)]
pub(super) struct Rank {
    pub(super) endpoint: EndpointMetadata,
    /// The pod listens there.
    pub(super) active: bool,
}

impl Pod {
    /// Returns the endpoints of the pod, one a target port, in order.
    pub(super) fn ranks(&self, name: &ObjectName, pool: &PoolSpec) -> impl Iterator<Item = Rank> {
        let listed = ACTIVE_PORTS.iter().find_map(|key| self.annotations.get(*key));
        let active: Option<Vec<u16>> = listed.map(|text| text.split(',').filter_map(leading_port).collect());
        pool.target_ports.iter().enumerate().map(move |(rank, port)| Rank {
            active: active.as_ref().is_none_or(|active| active.contains(port)),
            endpoint: EndpointMetadata {
                id: EndpointId::new(name.namespace.clone(), format!("{}-rank-{rank}", name.name)),
                name: name.name.clone(),
                address: self.ip.clone(),
                node_address: self.host_ip.clone(),
                port: port.to_string(),
                metrics_host: match self.ip.contains(':') {
                    true => format!("[{}]:{port}", self.ip),
                    false => format!("{}:{port}", self.ip),
                },
                labels: self.labels.clone(),
                rank_index: rank,
            },
        })
    }
}

/// Reads the number that an entry of the list starts with; whatever follows it is passed over.
fn leading_port(entry: &str) -> Option<u16> {
    let entry = entry.trim();
    let digits = entry.strip_prefix('+').unwrap_or(entry);
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    digits[..end].parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_active_ports_is_read_leniently() {
        for (entry, port) in [
            ("8000", Some(8000)),
            (" 8000 ", Some(8000)),
            ("8000abc", Some(8000)),
            ("+8000", Some(8000)),
            ("08000", Some(8000)),
            ("8000.5", Some(8000)),
            ("8000 8001", Some(8000)),
            ("0x1F40", None),
            ("8_000", Some(8)),
            ("abc8000", None),
            ("-8000", None),
            ("99999999999999999999", None),
            ("", None),
        ] {
            assert_eq!(leading_port(entry), port, "{entry:?}");
        }
    }

    #[test]
    fn ranks_follow_the_target_ports() {
        let pool = PoolSpec { target_ports: vec![8000, 8001, 8002], ..PoolSpec::default() };
        let name = ObjectName { namespace: "ns".into(), name: "pod".into() };
        let active = |annotations: &[(&str, &str)]| {
            let annotations = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let pod = Pod { annotations, ..Pod::default() };
            let ranks = pod.ranks(&name, &pool).filter(|rank| rank.active);
            ranks.map(|rank| rank.endpoint.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(active(&[]), ["ns/pod-rank-0", "ns/pod-rank-1", "ns/pod-rank-2"]);
        assert_eq!(active(&[(ACTIVE_PORTS[1], "8002")]), ["ns/pod-rank-2"]);
        assert_eq!(active(&[(ACTIVE_PORTS[0], "8000,invalid,8002")]), ["ns/pod-rank-0", "ns/pod-rank-2"]);
        assert_eq!(active(&[(ACTIVE_PORTS[0], ""), (ACTIVE_PORTS[1], "8002")]), [""; 0]);
    }
}
