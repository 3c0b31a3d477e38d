//! The document `EndpointPickerConfig` as written (configuration spec 1), before any plugin exists.

mod flow_control;
mod lockstep;

pub use flow_control::{FlowControlConfig, GoDuration, PriorityBand, Quantity};
pub use lockstep::{Behavior, Compat, LockstepConfig};

use super::decode::{Cursor, Decode, Fields};
use super::fault::Fault;
use super::problem::{Located, Problems, Syntax};
use super::yaml::{self, Content, Node};

/// The API version that is current.
const API_VERSION: &str = "llm-d.ai/v1alpha1";
/// The API version before the project moved; same fields.
const FORMER_API_VERSION: &str = "inference.networking.x-k8s.io/v1alpha1";
/// The kind of the document.
const KIND: &str = "EndpointPickerConfig";

/// What is used where there is no text at all (configuration spec 2.2).
const BUILT_IN: &str = include_str!("schema/built_in.yaml");

/// A whole configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointPickerConfig {
    /// `name` or `name=value`.
    pub feature_gates: Vec<Located<String>>,
    /// Plugins, in order.
    pub plugins: Vec<Located<PluginSpec>>,
    /// Profiles, in order; empty = one that holds everything.
    pub scheduling_profiles: Vec<Located<SchedulingProfile>>,
    /// Sources and discovery.
    pub data_layer: DataLayerConfig,
    /// Flow control; `None` where neither the section nor its deprecated alias is given.
    pub flow_control: Option<FlowControlConfig>,
    /// Parsers in order of precedence; empty = the default ones.
    pub parsers: Vec<Located<PluginRef>>,
    /// Options that the llm-d Router does not have; `None` where the section is absent.
    pub lockstep: Option<Located<LockstepConfig>>,
    /// What is deprecated in the text.
    pub deprecated: Vec<Deprecated>,
}

/// A deprecated way to say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deprecated {
    /// The former API version.
    ApiVersion,
    /// `saturationDetector` at the top level.
    SaturationDetector,
    /// `parser` at the top level.
    Parser,
}

/// One plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginSpec {
    /// Type; empty = missing.
    pub plugin_type: String,
    /// Name, the type where none is given.
    pub name: String,
    /// Parameters as written, for the plugin's factory.
    pub parameters: Option<Located<Node>>,
}

/// One scheduling profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulingProfile {
    /// Name; empty = missing.
    pub name: String,
    /// Its filters, scorers and picker, in order.
    pub plugins: Vec<Located<ProfileEntry>>,
}

/// A plugin in a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileEntry {
    /// Name of the plugin; empty = missing.
    pub plugin_ref: String,
    /// Weight of a scorer.
    pub weight: Option<f64>,
}

/// A reference to a plugin by name; empty = missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginRef(pub String);

/// The data layer.
#[derive(Clone, Debug, PartialEq)]
pub struct DataLayerConfig {
    /// Whether a metrics source is added where none is referred to.
    pub inject_defaults: bool,
    /// Sources with their extractors.
    pub sources: Vec<Located<SourceConfig>>,
    /// Plugin that finds endpoints; its presence means: not from Kubernetes.
    pub discovery: Option<Located<PluginRef>>,
    /// Plugin that tells replicas of each other.
    pub cross_replica_syncer: Option<Located<String>>,
    /// How often it does.
    pub cross_replica_sync_interval: Option<Located<GoDuration>>,
}

impl Default for DataLayerConfig {
    fn default() -> Self {
        DataLayerConfig {
            inject_defaults: true,
            sources: Vec::new(),
            discovery: None,
            cross_replica_syncer: None,
            cross_replica_sync_interval: None,
        }
    }
}

/// A data source with its extractors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceConfig {
    /// Name of the source.
    pub plugin_ref: String,
    /// Its extractors.
    pub extractors: Vec<Located<PluginRef>>,
}

/// Returns the name of what is read: the built-in configuration where `text` is empty.
pub fn source_name<'a>(file: &'a str, text: &str) -> &'a str {
    if text.is_empty() { "built-in configuration" } else { file }
}

impl EndpointPickerConfig {
    /// Reads `text`, strictly. A text without a single byte is the built-in configuration; one with only comments
    /// is a configuration without plugins.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problems<Fault>> {
        let mut found = Problems::new(source_name(file, text));
        let text = if text.is_empty() { BUILT_IN } else { text };
        let node = yaml::parse(text, &mut found);
        Self::read(node.as_ref(), found)
    }

    /// Reads a configuration that is a part of `file`, strictly.
    pub fn from_node(file: &str, node: &Node) -> Result<Self, Problems<Fault>> {
        Self::read(Some(node), Problems::new(file))
    }

    /// Reports what the llm-d Router's strict decoder would not take of a configuration that is accepted here.
    pub fn check_llm_d(&self, file: &str) -> Result<(), Problems<Fault>> {
        let mut problems = Problems::new(file);
        if let Some(section) = &self.lockstep {
            let message = "the llm-d Router has no such section and refuses the whole file";
            problems.push_at(Fault::Text(Syntax::UnknownField), section, message);
        }
        problems.into_result(())
    }

    fn read(node: Option<&Node>, mut found: Problems) -> Result<Self, Problems<Fault>> {
        let cursor = node.map(Cursor::root);
        let identity = cursor.as_ref().map(|c| wrong_identity(c.node)).unwrap_or_default();
        let config = cursor.and_then(|c| EndpointPickerConfig::decode(&c, &mut found));
        let mut problems = found.map(Fault::Text);
        for (wrong, message) in identity {
            problems.push_at(Fault::UnknownApiVersionOrKind, &wrong, message);
        }
        match config {
            Some(config) => problems.into_result(config),
            None => Err(problems),
        }
    }
}

/// Returns what is wrong with `apiVersion` and `kind`; absent and empty ones are fine, and wrong types are
/// reported by decoding.
fn wrong_identity(node: &Node) -> Vec<(Located<()>, String)> {
    let Content::Map(entries) = &node.content else { return Vec::new() };
    let wrong = |key: &str, accepted: &[&str]| {
        let entry = entries.iter().rfind(|e| e.key == key)?;
        match &entry.value.content {
            Content::Text(text) if !text.is_empty() && !accepted.contains(&text.as_str()) => {
                let place = Located { value: (), at: Some(entry.value.at), path: key.to_owned() };
                Some((place, format!("{text:?} is unknown; accepted: {}", accepted.join(", "))))
            }
            _ => None,
        }
    };
    [wrong("apiVersion", &[API_VERSION, FORMER_API_VERSION]), wrong("kind", &[KIND])]
        .into_iter()
        .flatten()
        .collect()
}

impl Decode for EndpointPickerConfig {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| {
            let mut deprecated = Vec::new();
            if f.optional::<String>("apiVersion").as_deref() == Some(FORMER_API_VERSION) {
                deprecated.push(Deprecated::ApiVersion);
            }
            let _: Option<String> = f.optional("kind");
            let feature_gates = f.or_default("featureGates");
            let plugins = f.or_default("plugins");
            let scheduling_profiles = f.or_default("schedulingProfiles");
            let data_layer = f.or_default("dataLayer");
            let mut flow_control: Option<FlowControlConfig> = f.optional("flowControl");
            let mut parsers: Vec<_> =
                f.optional("requestHandler").map(|RequestHandler(p)| p).unwrap_or_default();
            if let Some(detector) = f.optional::<Located<PluginRef>>("saturationDetector") {
                deprecated.push(Deprecated::SaturationDetector);
                flow_control.get_or_insert_default().saturation_detector.get_or_insert(detector);
            }
            if let Some(parser) = f.optional::<Located<PluginRef>>("parser") {
                deprecated.push(Deprecated::Parser);
                if parsers.is_empty() {
                    parsers.push(parser);
                }
            }
            let lockstep = f.optional("lockstep");
            EndpointPickerConfig {
                feature_gates,
                plugins,
                scheduling_profiles,
                data_layer,
                flow_control,
                parsers,
                lockstep,
                deprecated,
            }
        })
    }
}

/// `requestHandler`: the parsers.
struct RequestHandler(Vec<Located<PluginRef>>);

impl Decode for RequestHandler {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| RequestHandler(f.or_default("parsers")))
    }
}

impl Decode for PluginSpec {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| {
            let plugin_type: String = f.or_default("type");
            let name = f.optional("name").filter(|n: &String| !n.is_empty());
            let parameters = f.node("parameters").map(|p| p.with(p.value.clone()));
            PluginSpec { name: name.unwrap_or_else(|| plugin_type.clone()), plugin_type, parameters }
        })
    }
}

impl Decode for SchedulingProfile {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| SchedulingProfile {
            name: f.or_default("name"),
            plugins: f.or_default("plugins"),
        })
    }
}

impl Decode for ProfileEntry {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| ProfileEntry {
            plugin_ref: f.or_default("pluginRef"),
            weight: f.optional("weight"),
        })
    }
}

impl Decode for PluginRef {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| PluginRef(f.or_default("pluginRef")))
    }
}

impl Decode for DataLayerConfig {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| DataLayerConfig {
            inject_defaults: f.optional("injectDefaults").unwrap_or(true),
            sources: f.or_default("sources"),
            discovery: f.optional("discovery"),
            cross_replica_syncer: f
                .optional("crossReplicaSyncerPluginRef")
                .filter(|r: &Located<String>| !r.value.is_empty()),
            cross_replica_sync_interval: f.optional("crossReplicaSyncInterval"),
        })
    }
}

impl Decode for SourceConfig {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| SourceConfig {
            plugin_ref: f.or_default("pluginRef"),
            extractors: f.or_default("extractors"),
        })
    }
}

#[cfg(test)]
mod tests;
