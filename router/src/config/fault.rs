//! How a configuration can be wrong, in the order in which the llm-d Router finds it.

use super::problem::Syntax;

/// The class of a problem with a configuration.
///
/// All problems of the first phase that finds any are reported together; later phases do not run then, since
/// they would report what follows from the first. The first problem is the one that ends the llm-d Router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The text does not decode.
    Text(Syntax),
    /// Neither the current nor the former API version, or another kind.
    UnknownApiVersionOrKind,
    /// No such feature gate.
    UnknownFeatureGate,
    /// A feature gate that is neither on nor off.
    BadFeatureGateValue,
    /// A plugin without a type.
    PluginWithoutType,
    /// Two plugins of one name.
    DuplicatePluginName,
    /// No such plugin type.
    UnknownPluginType,
    /// A plugin type of the pinned release that this build does not have.
    NotBuilt,
    /// Parameters that a plugin does not accept.
    BadParameters,
    /// Plugins that refer to each other in a circle.
    PluginReferenceCycle,
    /// Parameters that refer to a plugin which is not configured.
    UnknownPluginReference,
    /// A parser reference that is neither a plugin nor a type.
    UnknownDefaultPluginType,
    /// A plugin that was added by default and cannot be built.
    DefaultPluginFailed,
    /// A scheduling profile without a name.
    ProfileWithoutName,
    /// Two scheduling profiles of one name.
    DuplicateProfileName,
    /// A profile entry that refers to nothing.
    ProfileEntryWithoutRef,
    /// A profile entry that refers to no plugin.
    UndefinedProfileRef,
    /// A saturation detector that is no plugin.
    UndefinedSaturationDetector,
    /// A parser that is no plugin.
    UndefinedParser,
    /// A profile with two pickers.
    SecondPicker,
    /// Two profile handlers.
    MultipleProfileHandlers,
    /// Several profiles and no profile handler.
    NoProfileHandler,
    /// Several profiles under the handler of one.
    SingleHandlerWithManyProfiles,
    /// A cross-replica syncer that is none.
    NotACrossReplicaSyncer,
    /// A data source that is no plugin.
    UndefinedDataSource,
    /// An extractor that is no plugin.
    UndefinedExtractor,
    /// A limit below zero.
    NegativeQuantity,
    /// Two bands of one priority.
    DuplicatePriority,
    /// A flow-control policy that is no plugin.
    UndefinedPolicy,
    /// A flow-control policy of another role.
    WrongPolicyRole,
    /// A time to live below zero.
    NegativeTtl,
    /// A parser that is none.
    WrongParserRole,
    /// A saturation detector that is none.
    WrongSaturationDetectorRole,
    /// A required data key that nobody produces.
    NoDefaultProducer,
    /// A data producer that was added for a key and cannot be built, or is none.
    DefaultProducerFailed,
    /// A producer and a consumer of one key that differ in the type of its value.
    DataTypeMismatch,
    /// A producer that runs after its consumer.
    LayerOrder,
    /// Producers that need each other in a circle.
    Cycle,
    /// A discovery plugin that is not configured.
    UndefinedDiscovery,
    /// A discovery plugin that is none.
    WrongDiscoveryRole,
    /// A data layer without sources.
    NoSources,
    /// Two extractors of one type on one source.
    DuplicateExtractorType,
    /// An extractor that cannot listen to its source.
    WrongExtractorRole,
    /// A source that is none.
    NotADataSource,
    /// One source twice.
    DuplicateSource,
    /// Two sources of one kind of Kubernetes objects.
    DuplicateGvk,
    /// A listener to objects of another kind.
    GvkMismatch,
    /// An extractor that cannot read what its source fetches.
    ExtractorPayloadMismatch,
    /// An experimental plugin without leave.
    Experimental,
}

/// A step of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// From text to values.
    Parse,
    /// Gates, plugin list, profiles.
    Validate,
    /// What this build supports.
    Support,
    /// Factories.
    Instantiate,
    /// What is added by default.
    Defaulting,
    /// Scheduler, data layer, flow control, parsers.
    Build,
    /// Producers and consumers.
    DataGraph,
    /// Where endpoints come from.
    Discovery,
    /// Sources and extractors.
    DataLayer,
    /// Experimental plugins.
    Stability,
}

impl Fault {
    /// Returns the step that finds it and its name, as the golden vectors spell both.
    fn entry(self) -> (Phase, &'static str) {
        use Fault as F;
        use Phase::{
            Build, DataGraph, DataLayer, Defaulting, Discovery, Instantiate, Parse, Stability, Support,
            Validate,
        };
        match self {
            F::Text(Syntax::BadSyntax) => (Parse, "bad-syntax"),
            F::Text(Syntax::DuplicateField) => (Parse, "duplicate-field"),
            F::Text(Syntax::UnknownField) => (Parse, "unknown-field"),
            F::Text(Syntax::MissingField) => (Parse, "missing-field"),
            F::Text(Syntax::WrongType) => (Parse, "wrong-type"),
            F::Text(Syntax::BadValue) => (Parse, "decode"),
            F::UnknownApiVersionOrKind => (Parse, "unknown-api-version-or-kind"),
            F::UnknownFeatureGate => (Validate, "unknown-feature-gate"),
            F::BadFeatureGateValue => (Validate, "bad-feature-gate-value"),
            F::PluginWithoutType => (Validate, "plugin-without-type"),
            F::DuplicatePluginName => (Validate, "duplicate-plugin-name"),
            F::UnknownPluginType => (Validate, "unknown-plugin-type"),
            F::NotBuilt => (Support, "not-built"),
            F::BadParameters => (Instantiate, "bad-parameters"),
            F::PluginReferenceCycle => (Instantiate, "plugin-reference-cycle"),
            F::UnknownPluginReference => (Instantiate, "unknown-plugin-reference"),
            F::UnknownDefaultPluginType => (Defaulting, "unknown-default-plugin-type"),
            F::DefaultPluginFailed => (Defaulting, "default-plugin-failed"),
            F::ProfileWithoutName => (Validate, "profile-without-name"),
            F::DuplicateProfileName => (Validate, "duplicate-profile-name"),
            F::ProfileEntryWithoutRef => (Validate, "profile-entry-without-ref"),
            F::UndefinedProfileRef => (Validate, "undefined-profile-ref"),
            F::UndefinedSaturationDetector => (Validate, "undefined-saturation-detector"),
            F::UndefinedParser => (Validate, "undefined-parser"),
            F::SecondPicker => (Build, "second-picker"),
            F::MultipleProfileHandlers => (Build, "multiple-profile-handlers"),
            F::NoProfileHandler => (Build, "no-profile-handler"),
            F::SingleHandlerWithManyProfiles => (Build, "single-handler-with-many-profiles"),
            F::NotACrossReplicaSyncer => (Build, "not-a-cross-replica-syncer"),
            F::UndefinedDataSource => (Build, "undefined-data-source"),
            F::UndefinedExtractor => (Build, "undefined-extractor"),
            F::NegativeQuantity => (Build, "negative-quantity"),
            F::DuplicatePriority => (Build, "duplicate-priority"),
            F::UndefinedPolicy => (Build, "undefined-policy"),
            F::WrongPolicyRole => (Build, "wrong-policy-role"),
            F::NegativeTtl => (Build, "negative-ttl"),
            F::WrongParserRole => (Build, "wrong-parser-role"),
            F::WrongSaturationDetectorRole => (Build, "wrong-saturation-detector-role"),
            F::NoDefaultProducer => (DataGraph, "no-default-producer"),
            F::DefaultProducerFailed => (DataGraph, "default-producer-failed"),
            F::DataTypeMismatch => (DataGraph, "data-type-mismatch"),
            F::LayerOrder => (DataGraph, "layer-order"),
            F::Cycle => (DataGraph, "cycle"),
            F::UndefinedDiscovery => (Discovery, "undefined-discovery"),
            F::WrongDiscoveryRole => (Discovery, "wrong-discovery-role"),
            F::NoSources => (DataLayer, "no-sources"),
            F::DuplicateExtractorType => (DataLayer, "duplicate-extractor-type"),
            F::WrongExtractorRole => (DataLayer, "wrong-extractor-role"),
            F::NotADataSource => (DataLayer, "not-a-data-source"),
            F::DuplicateSource => (DataLayer, "duplicate-source"),
            F::DuplicateGvk => (DataLayer, "duplicate-gvk"),
            F::GvkMismatch => (DataLayer, "gvk-mismatch"),
            F::ExtractorPayloadMismatch => (DataLayer, "extractor-payload-mismatch"),
            F::Experimental => (Stability, "experimental"),
        }
    }

    /// Returns the step that finds it.
    pub fn phase(self) -> Phase {
        self.entry().0
    }

    /// Returns its name: lower case, words joined by `-`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }
}

impl Phase {
    /// Returns its name: lower case, words joined by `-`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Parse => "parse",
            Phase::Validate => "validate",
            Phase::Support => "support",
            Phase::Instantiate => "instantiate",
            Phase::Defaulting => "defaulting",
            Phase::Build => "build",
            Phase::DataGraph => "data-graph",
            Phase::Discovery => "discovery",
            Phase::DataLayer => "data-layer",
            Phase::Stability => "stability",
        }
    }
}
