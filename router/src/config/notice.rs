//! What a configuration's reader should know although the configuration is accepted.

use std::fmt;
use std::rc::Rc;

use crate::data_key::DataKey;
use crate::support::Deprecation;

/// Something worth a line in the log when a configuration is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The former API version.
    DeprecatedApiVersion,
    /// `saturationDetector` at the top level.
    DeprecatedSaturationDetector,
    /// `parser` at the top level.
    DeprecatedParser,
    /// A plugin of a deprecated type.
    DeprecatedPlugin {
        /// The plugin.
        name: Rc<str>,
        /// Its type.
        plugin_type: Rc<str>,
        /// What to use instead.
        deprecation: Deprecation,
    },
    /// Flow control is configured and off.
    FlowControlSectionIgnored,
    /// No sources: nothing is scraped.
    NoDataSources,
    /// A parser behind one of its type.
    DuplicateParserType(Rc<str>),
    /// A parser behind one that takes every request.
    ParserAfterFallback(Rc<str>),
    /// A plugin that would use data which nobody produces.
    OptionalKeyUnproduced {
        /// The plugin.
        plugin: Rc<str>,
        /// The data.
        key: DataKey,
    },
    /// A source of Kubernetes objects, which nobody feeds.
    NoKubernetes(Rc<str>),
    /// A plugin that KV events are for, and that subscribes to nobody.
    NoKvEvents(Rc<str>),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::DeprecatedApiVersion => f.write_str(
                "apiVersion inference.networking.x-k8s.io/v1alpha1 is deprecated; use llm-d.ai/v1alpha1",
            ),
            Notice::DeprecatedSaturationDetector => f.write_str(
                "the top-level saturationDetector is deprecated; use flowControl.saturationDetector",
            ),
            Notice::DeprecatedParser => {
                f.write_str("the top-level parser is deprecated; use requestHandler.parsers")
            }
            Notice::DeprecatedPlugin { name, plugin_type, deprecation } => write!(
                f,
                "plugin {name}: type {plugin_type} is deprecated since {}, to be removed in {}; use {}",
                deprecation.since, deprecation.removal, deprecation.replacement
            ),
            Notice::FlowControlSectionIgnored => {
                f.write_str("the section flowControl is ignored, since the feature gate flowControl is off")
            }
            Notice::NoDataSources => f.write_str("the data layer has no sources: no metrics are read"),
            Notice::DuplicateParserType(name) => {
                write!(f, "parser {name} stands behind another of its type and is never asked")
            }
            Notice::ParserAfterFallback(name) => {
                write!(f, "parser {name} stands behind one that takes every request and is never asked")
            }
            Notice::OptionalKeyUnproduced { plugin, key } => {
                write!(f, "plugin {plugin} would use {key}, which no plugin produces")
            }
            Notice::NoKvEvents(name) => write!(
                f,
                "plugin {name} hears of no KV events: it subscribes only to endpoints that it is told of; list it \
                 among the extractors of an endpoint-notification-source under dataLayer.sources"
            ),
            Notice::NoKubernetes(name) => write!(
                f,
                "the data source {name} hears of nothing: this build has no Kubernetes client, endpoints come \
                 from files or from the command line"
            ),
        }
    }
}
