//! The scenario file: everything that repeats a run.
//!
//! Read strictly: an unknown key, a wrong type and a value out of range are each reported with line, column and
//! the keys that lead there, all of them at once.

mod cluster;
mod fields;
mod network;
mod plan;
mod workload;

pub use cluster::{Group, GroupLatency, Overrides};
pub use network::{LinkSpec, NetworkPlan, NetworkSpec};
pub use plan::{EngineGroup, Plan};
pub use workload::{WorkloadSource, WorkloadSpec};

use std::path::{Path, PathBuf};

use router::config::decode::{Cursor, Decode, Fields};
use router::config::problem::{Located, Problems, Syntax};
use router::config::yaml::{self, Content, Node};

use crate::input_file;
use fields::expected;

/// The scenario that runs when none is given; it is also an example to copy.
pub const DEFAULT: &str = include_str!("../../examples/scenario.yaml");

/// The name under which errors speak of [`DEFAULT`].
const DEFAULT_NAME: &str = "built-in scenario";

/// Everything that repeats a run, as the file and the flags give it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The file it came from, for errors.
    pub file: String,
    /// What all randomness comes from.
    pub seed: u64,
    /// What arrives.
    pub workload: WorkloadSpec,
    /// The groups of engines, at least one.
    pub cluster: Vec<Group>,
    /// How HTTP travels.
    pub network: NetworkSpec,
    /// How the router is configured.
    pub router: RouterSource,
    /// Plugins of Alpha stability may run, as with the router's `--allow-experimental-plugins`.
    pub allow_experimental_plugins: bool,
}

/// Where the router's configuration comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum RouterSource {
    /// The built-in default.
    BuiltIn,
    /// An `EndpointPickerConfig` file.
    File(PathBuf),
    /// An `EndpointPickerConfig` inside a file: its tree, and that file's name for its errors.
    Inline {
        /// The file that holds it.
        file: String,
        /// The configuration, with the place of each node in that file.
        config: Located<Node>,
    },
}

impl Scenario {
    /// Returns the built-in scenario.
    ///
    /// # Errors
    /// Never, as a test holds; the signature is that of the files.
    pub fn built_in() -> Result<Self, Problems> {
        Self::parse(DEFAULT_NAME, DEFAULT, Path::new(""))
    }

    /// Reads the scenario at `path`; relative paths in it count from its folder. An `EndpointPickerConfig` is
    /// taken for the built-in scenario with that router.
    ///
    /// # Errors
    /// When the file cannot be read, and everything that is wrong in it.
    pub fn open(path: &Path) -> Result<Self, Problems> {
        let name = path.display().to_string();
        let text = input_file::read_text(path, "the scenario", "a YAML file in UTF-8").map_err(|error| {
            let mut problems = Problems::new(&name);
            problems.push(Syntax::BadValue, None, "", error.message());
            problems
        })?;
        let mut problems = Problems::new(&name);
        if yaml::parse(&text, &mut problems).is_some_and(|root| is_router_config(&root)) {
            let router = RouterSource::File(path.to_owned());
            return Ok(Scenario { router, ..Self::built_in()? });
        }
        Self::parse(&name, &text, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a scenario from `text`; errors name `file`, and relative paths count from `folder`.
    ///
    /// # Errors
    /// Everything that is wrong in it.
    pub fn parse(file: &str, text: &str, folder: &Path) -> Result<Self, Problems> {
        let mut problems = Problems::new(file);
        let scenario = yaml::parse_only(text, &mut problems)
            .and_then(|root| Scenario::decode(&Cursor::root(&root), file, folder, &mut problems));
        match scenario {
            Some(scenario) => problems.into_result(scenario),
            None => Err(problems),
        }
    }

    fn decode(cursor: &Cursor<'_>, file: &str, folder: &Path, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::read(cursor, problems, |fields| {
            let workload = expected::<WorkloadSpec>(fields, "workload");
            let cluster = expected::<Clusters>(fields, "cluster");
            let router = router_source(fields, file, folder);
            let network = fields.or_default("network");
            let allow_experimental_plugins = fields.or_default("allow_experimental_plugins");
            let seed = fields.optional::<u64>("seed").unwrap_or(DEFAULT_SEED);
            let file = file.to_owned();
            let (workload, cluster, router) = (workload?, cluster?.0, router?);
            Some(Scenario { file, seed, workload, cluster, network, router, allow_experimental_plugins })
        });
        let mut scenario = fields??;
        if let WorkloadSource::Trace(trace) = &mut scenario.workload.source {
            trace.value = folder.join(&trace.value);
        }
        for group in &mut scenario.cluster {
            if plan::is_path(&group.model) {
                group.model.value = folder.join(&group.model.value).display().to_string();
            }
            if let GroupLatency::Table(path) = &mut group.latency.value {
                *path = folder.join(&*path);
            }
        }
        Some(scenario)
    }
}

/// The seed of a scenario that names none.
const DEFAULT_SEED: u64 = 42;

fn router_source(fields: &mut Fields<'_, '_>, file: &str, folder: &Path) -> Option<RouterSource> {
    let Some(node) = fields.node("router") else { return Some(RouterSource::BuiltIn) };
    match &node.content {
        Content::Null => Some(RouterSource::BuiltIn),
        Content::Text(path) => Some(RouterSource::File(folder.join(path))),
        Content::Map(_) => {
            Some(RouterSource::Inline { file: file.to_owned(), config: node.with(node.value.clone()) })
        }
        _ => {
            let found = node.describe();
            let message =
                format!("expected the path of an EndpointPickerConfig, or one as a mapping, found {found}");
            fields.refuse(node.at, node.path, message);
            None
        }
    }
}

fn is_router_config(root: &Node) -> bool {
    let Content::Map(entries) = &root.content else { return false };
    entries.iter().any(|entry| {
        entry.key == "kind" && entry.value.content == Content::Text("EndpointPickerConfig".to_owned())
    })
}

/// The groups of a cluster: a list that is not empty.
struct Clusters(Vec<Group>);

impl Decode for Clusters {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        let Content::List(items) = &cursor.node.content else {
            cursor.mismatch("a list of groups of engines", problems);
            return None;
        };
        if items.is_empty() {
            cursor.refuse("no group of engines; at least one is needed", problems);
            return None;
        }
        let groups: Vec<Option<Group>> = items
            .iter()
            .enumerate()
            .map(|(index, node)| {
                let path = format!("{}[{index}]", cursor.path);
                Group::decode(&Cursor::at(node, path), problems)
            })
            .collect();
        groups.into_iter().collect::<Option<_>>().map(Clusters)
    }
}

#[cfg(test)]
mod tests;
