//! `header-based-testing-filter`: the endpoints that a test header lists (scheduling spec 4.10).

use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{Filter, SchedulingContext};

/// Name of the type.
pub const TYPE: &str = "header-based-testing-filter";

/// The header: `IP` or `IP:port`, separated by commas.
const HEADER: &str = "test-epp-endpoint-selection";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::filter(HeaderBasedTestingFilter)))
}

struct HeaderBasedTestingFilter;

impl Filter for HeaderBasedTestingFilter {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        let header = cx.request.headers.get(HEADER).unwrap_or_default();
        let mut selected: Vec<Candidate> = Vec::new();
        let address = |candidate| bare(&cx.candidates.endpoint(candidate).metadata.address);
        for item in header.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (host, port) = split_host_port(item);
            // Of several candidates at one place the last one answers for it.
            let found = survivors.iter().rev().find(|&&candidate| {
                let metadata = &cx.candidates.endpoint(candidate).metadata;
                let port_fits = port.is_none_or(|port| !port.is_empty() && metadata.port == port);
                !host.is_empty() && address(candidate) == host && port_fits
            });
            if let Some(&candidate) = found
                && !selected.iter().any(|&other| address(other) == address(candidate))
            {
                selected.push(candidate);
            }
        }
        *survivors = selected;
    }
}

/// Splits `host:port` and `[v6]:port`; anything else is a host, with or without brackets.
fn split_host_port(item: &str) -> (&str, Option<&str>) {
    let split = match item.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => item.split_once(':'),
    };
    match split {
        Some((host, port)) if !port.contains([':', '[', ']']) && !host.contains(['[', ']']) => {
            (host, Some(port))
        }
        _ => (bare(item), None),
    }
}

/// Returns an address without blanks around it and without brackets.
fn bare(address: &str) -> &str {
    address.trim().trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_hosts_with_an_optional_port() {
        for (item, host, port) in [
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1:3002", "10.0.0.1", Some("3002")),
            ("[fd00::1]:3002", "fd00::1", Some("3002")),
            ("fd00::2", "fd00::2", None),
            ("[fd00::2]", "fd00::2", None),
        ] {
            assert_eq!(split_host_port(item), (host, port), "{item}");
        }
    }
}
