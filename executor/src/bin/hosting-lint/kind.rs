//! What a use is about, and by which path it is known.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What hosted code touches with a use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Clock,
    Timer,
    Deadline,
    Spawn,
    Thread,
    Randomness,
    MapIteration,
    OutboundHttp,
    Blocking,
    Waiting,
    Environment,
    Select,
    LockAcrossAwait,
    State,
    Float,
    Simulation,
}

/// The kinds of what `.clippy.toml` bans, by the beginning of its path; the longest that fits counts.
const AROUND: &[(&str, Kind)] = &[
    ("f32::", Kind::Float),
    ("f64::", Kind::Float),
    ("fastrand::", Kind::Randomness),
    ("futures::channel::", Kind::Waiting),
    ("futures::executor::", Kind::Blocking),
    ("futures::select", Kind::Select),
    ("futures_util::select", Kind::Select),
    ("getrandom::", Kind::Randomness),
    ("hashbrown::", Kind::MapIteration),
    ("indexmap::", Kind::MapIteration),
    ("rand::", Kind::Randomness),
    ("std::collections::", Kind::MapIteration),
    ("std::env::", Kind::Environment),
    ("std::hash::", Kind::Randomness),
    ("std::net::", Kind::OutboundHttp),
    ("std::process::", Kind::Environment),
    ("std::sync::", Kind::Blocking),
    ("std::thread::", Kind::Thread),
    ("std::thread::available_parallelism", Kind::Environment),
    ("std::thread::park", Kind::Blocking),
    ("std::thread::sleep", Kind::Timer),
    ("std::thread::yield_now", Kind::Blocking),
    ("std::thread_local", Kind::State),
    ("std::time::", Kind::Clock),
    ("tokio::net::", Kind::OutboundHttp),
    ("tokio::runtime::", Kind::Spawn),
    ("tokio::select", Kind::Select),
    ("tokio::spawn", Kind::Spawn),
    ("tokio::sync::", Kind::Waiting),
    ("tokio::task::", Kind::Spawn),
    ("tokio::task::block_in_place", Kind::Blocking),
    ("tokio::task::spawn_blocking", Kind::Blocking),
    ("tokio::task::yield_now", Kind::Waiting),
    ("tokio::time::", Kind::Timer),
    ("tokio::time::Instant::", Kind::Clock),
    ("tokio::time::timeout", Kind::Deadline),
];

/// The calls of the seam: every method of the handle, every draw, every request.
pub(crate) const SEAM: &[(&str, Kind)] = &[
    ("executor::Rt::now", Kind::Clock),
    ("executor::Rt::wall", Kind::Clock),
    ("executor::Rt::sleep", Kind::Timer),
    ("executor::Rt::sleep_until", Kind::Timer),
    ("executor::Rt::sleep_until_in", Kind::Timer),
    ("executor::Rt::interval", Kind::Timer),
    ("executor::Rt::interval_at", Kind::Timer),
    ("executor::Rt::timeout", Kind::Deadline),
    ("executor::Rt::deadline", Kind::Deadline),
    ("executor::Rt::spawn", Kind::Spawn),
    ("executor::Rt::spawn_local", Kind::Spawn),
    ("executor::Rt::daemon", Kind::Spawn),
    ("executor::Rt::blocking", Kind::Blocking),
    ("executor::Rt::park", Kind::Waiting),
    ("executor::Rt::oneshot", Kind::Waiting),
    ("executor::Rt::mpsc", Kind::Waiting),
    ("executor::Rt::mpsc_unbounded", Kind::Waiting),
    ("executor::Rt::watch", Kind::Waiting),
    ("executor::Rt::notify", Kind::Waiting),
    ("executor::Rt::semaphore", Kind::Waiting),
    ("executor::Rt::stream", Kind::Randomness),
    ("executor::Rt::local", Kind::State),
    ("executor::Rt::http", Kind::OutboundHttp),
    ("executor::Rt::simulation", Kind::Simulation),
    // What only some hosts have is of one kind.
    ("executor::Rt::live", Kind::Simulation),
    ("executor::Stream::new", Kind::Randomness),
    ("executor::Stream::fork", Kind::Randomness),
    ("executor::Stream::u64", Kind::Randomness),
    ("executor::Stream::below", Kind::Randomness),
    ("executor::Stream::unit", Kind::Randomness),
    ("executor::Stream::exp", Kind::Randomness),
    ("executor::Stream::normal", Kind::Randomness),
    ("executor::Stream::pick", Kind::Randomness),
    ("executor::Stream::shuffle", Kind::Randomness),
    ("executor::http::Transport::send", Kind::OutboundHttp),
];

impl Kind {
    /// Returns the kind of the banned `path`, `None` if the table has no beginning of it.
    pub(crate) fn around(path: &str) -> Option<Kind> {
        let fits = AROUND.iter().filter(|(beginning, _)| path.starts_with(beginning));
        fits.max_by_key(|(beginning, _)| beginning.len()).map(|(_, kind)| *kind)
    }

    /// Returns the kind of the call `path` of the seam, `None` if it is not one.
    pub(crate) fn seam(path: &str) -> Option<Kind> {
        SEAM.iter().find(|(call, _)| *call == path).map(|(_, kind)| *kind)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Clock => "clock",
            Kind::Timer => "timer",
            Kind::Deadline => "deadline",
            Kind::Spawn => "spawn",
            Kind::Thread => "thread",
            Kind::Randomness => "randomness",
            Kind::MapIteration => "map-iteration",
            Kind::OutboundHttp => "outbound-http",
            Kind::Blocking => "blocking",
            Kind::Waiting => "waiting",
            Kind::Environment => "environment",
            Kind::Select => "select",
            Kind::LockAcrossAwait => "lock-across-await",
            Kind::State => "state",
            Kind::Float => "float",
            Kind::Simulation => "simulation",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_ban_of_the_workspace_has_a_kind() {
        let bans: toml::Table = include_str!("../../../../.clippy.toml").parse().expect("valid TOML");
        let mut seen = BTreeSet::new();
        for list in ["disallowed-methods", "disallowed-types", "disallowed-macros"] {
            for entry in bans[list].as_array().expect("a list") {
                let path = entry["path"].as_str().expect("a path");
                seen.insert(Kind::around(path).unwrap_or_else(|| panic!("`{path}` has no kind")));
            }
        }
        // The lints without a list bring the rest.
        assert_eq!(seen.len(), 14, "{seen:?}");
    }

    #[test]
    fn the_longest_beginning_counts() {
        assert_eq!(Kind::around("std::thread::spawn"), Some(Kind::Thread));
        assert_eq!(Kind::around("std::thread::sleep_until"), Some(Kind::Timer));
        assert_eq!(Kind::around("tokio::time::Instant::now"), Some(Kind::Clock));
        assert_eq!(Kind::around("tokio::time::timeout_at"), Some(Kind::Deadline));
        assert_eq!(Kind::around("std::vec::Vec::new"), None);
    }

    /// Public methods in the `impl` blocks of `owner`, by their path.
    fn public_methods(owner: &str, path: &str, source: &str) -> BTreeSet<String> {
        let file = syn::parse_file(source).expect("valid Rust");
        let mut methods = BTreeSet::new();
        for item in file.items {
            let syn::Item::Impl(block) = item else { continue };
            let syn::Type::Path(of) = &*block.self_ty else { continue };
            if block.trait_.is_some() || !of.path.is_ident(owner) {
                continue;
            }
            for item in block.items {
                if let syn::ImplItem::Fn(method) = item
                    && matches!(method.vis, syn::Visibility::Public(_))
                {
                    methods.insert(format!("{path}::{}", method.sig.ident));
                }
            }
        }
        methods
    }

    #[test]
    fn the_calls_of_the_seam_are_all_it_has() {
        let mut methods = public_methods("Rt", "executor::Rt", include_str!("../../rt.rs"));
        methods.extend(public_methods("Stream", "executor::Stream", include_str!("../../stream.rs")));
        let transport = include_str!("../../http/transport.rs");
        methods.extend(public_methods("Transport", "executor::http::Transport", transport));
        let table: BTreeSet<String> = SEAM.iter().map(|(call, _)| (*call).to_owned()).collect();
        assert_eq!(table, methods);
    }
}
