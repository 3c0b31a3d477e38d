//! Sources, extractors and listeners (configuration spec 5.1, 5.2).

use std::rc::Rc;

use super::Loader;
use crate::config::assembly::{DataLayerPlan, Hook, PollingPlan};
use crate::config::fault::Fault;
use crate::config::notice::Notice;
use crate::config::problem::Located;
use crate::config::schema::SourceConfig;
use crate::data_layer::{EndpointListener, Extractor, tick};

impl Loader<'_> {
    /// Reports references to sources, extractors and a syncer that lead nowhere.
    pub(super) fn check_data_layer_references(&mut self, sources: &[Located<SourceConfig>]) {
        if let Some(syncer) = &self.config.data_layer.cross_replica_syncer {
            // No plugin of the pinned release has the role.
            let message = format!("plugin \"{}\" does not synchronise replicas", syncer.value);
            self.problems.push_at(Fault::NotACrossReplicaSyncer, syncer, message);
        }
        for source in sources {
            if self.plugin(&source.plugin_ref).is_none() {
                let message = format!("the data source \"{}\" is not among the plugins", source.plugin_ref);
                self.problems.push_at(Fault::UndefinedDataSource, source, message);
            }
            for extractor in &source.extractors {
                if self.plugin(&extractor.0).is_some() {
                    continue;
                }
                let message = format!("the extractor \"{}\" is not among the plugins", extractor.0);
                self.problems.push_at(Fault::UndefinedExtractor, extractor, message);
            }
        }
        if sources.is_empty() {
            self.notices.push(Notice::NoDataSources);
        }
    }

    /// Binds extractors to sources and listeners to endpoint events.
    pub(super) fn plan_data_layer(&mut self, sources: &[Located<SourceConfig>]) -> DataLayerPlan {
        let listeners = self.listeners();
        if sources.is_empty() && listeners.is_empty() {
            let message = "the data layer has no sources, and no plugin listens to endpoints; \
                           accepted: sources under dataLayer.sources, or injectDefaults: true";
            self.problems.push(Fault::NoSources, None, "dataLayer", message);
        }
        let mut polling: Vec<PollingPlan> = Vec::new();
        for source in sources {
            if let Some(plan) = self.plan_source(source, &polling) {
                polling.push(plan);
            }
        }
        let intervals = polling.iter().map(|p| p.source.plugin.interval());
        let base_tick = tick::base(self.options.refresh_metrics_interval, intervals);
        for plan in &mut polling {
            plan.period_ticks = tick::period(plan.source.plugin.interval(), base_tick);
        }
        DataLayerPlan { base_tick, polling, listeners }
    }

    /// Returns the plugins that ask for endpoint events: of several of one type only the first is bound.
    fn listeners(&self) -> Vec<Hook<dyn EndpointListener>> {
        let mut bound: Vec<Hook<dyn EndpointListener>> = Vec::new();
        for instance in self.plugins.iter().filter_map(|p| p.instance.as_ref()) {
            let Some(listener) = &instance.roles.endpoint_listener else { continue };
            if !bound.iter().any(|b| b.id.plugin_type == instance.id.plugin_type) {
                bound.push(Hook { id: instance.id.clone(), plugin: Rc::clone(listener) });
            }
        }
        bound
    }

    fn plan_source(
        &mut self,
        source: &Located<SourceConfig>,
        earlier: &[PollingPlan],
    ) -> Option<PollingPlan> {
        let name = &source.plugin_ref;
        let instance = self.instance(name)?.clone();
        let Some(polling) = instance.roles.polling_source else {
            let message = format!("plugin \"{name}\" is not a data source");
            self.problems.push_at(Fault::NotADataSource, source, message);
            return None;
        };
        let mut extractors: Vec<Hook<dyn Extractor>> = Vec::new();
        for reference in &source.extractors {
            let Some(plugin) = self.instance(&reference.0).cloned() else { continue };
            if extractors.iter().any(|e| e.id.plugin_type == plugin.id.plugin_type) {
                let message =
                    format!("a second extractor of type {} on the source \"{name}\"", plugin.id.plugin_type);
                self.problems.push_at(Fault::DuplicateExtractorType, reference, message);
            }
            match plugin.roles.extractor {
                Some(extractor) if extractor.payload() == polling.payload() => {
                    extractors.push(Hook { id: plugin.id, plugin: extractor });
                }
                _ => {
                    let message =
                        format!("plugin \"{}\" cannot read what the source \"{name}\" fetches", reference.0);
                    self.problems.push_at(Fault::ExtractorPayloadMismatch, reference, message);
                }
            }
        }
        if earlier.iter().any(|p| p.source.id.name == instance.id.name) {
            let message = format!("the data source \"{name}\" is listed twice");
            self.problems.push_at(Fault::DuplicateSource, source, message);
        }
        Some(PollingPlan { source: Hook { id: instance.id, plugin: polling }, period_ticks: 1, extractors })
    }
}
