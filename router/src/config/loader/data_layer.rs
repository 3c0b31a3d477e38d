//! Sources, extractors and listeners (configuration spec 5.1, 5.2).

use std::rc::Rc;

use super::Loader;
use crate::config::assembly::{
    DataLayerPlan, EndpointSourcePlan, NotificationSourcePlan, Plugin, PollingPlan,
};
use crate::config::fault::Fault;
use crate::config::notice::Notice;
use crate::config::problem::Located;
use crate::config::schema::{PluginRef, SourceConfig};
use crate::data_layer::k8s_notification_source::{self, GroupVersionKind};
use crate::data_layer::{
    EndpointListener, Extractor, PodListener, PollingSource, endpoint_notification_source, tick,
};
use crate::plugin::Hook;
use crate::plugin::{Instance, TypedName};
use crate::support::EndpointEvents;

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

    /// Binds extractors and listeners to sources.
    pub(super) fn plan_data_layer(&mut self, sources: &[Located<SourceConfig>]) -> DataLayerPlan {
        let mut polling: Vec<PollingPlan> = Vec::new();
        let mut endpoint_sources: Vec<EndpointSourcePlan> = Vec::new();
        let mut notification_sources: Vec<NotificationSourcePlan> = Vec::new();
        for source in sources {
            let Some(instance) = self.instance(&source.plugin_ref).cloned() else { continue };
            if let Some(polled) = instance.roles.polling_source {
                let hook = Hook { id: instance.id, plugin: polled };
                let plan = self.plan_polling(source, hook, &polling);
                polling.push(plan);
            } else if instance.roles.endpoint_source {
                let listeners = self.listed_listeners(source);
                endpoint_sources.push(EndpointSourcePlan { id: instance.id, listeners });
            } else if let Some(watched) = instance.roles.notification_source {
                if notification_sources.iter().any(|other| other.watched == watched) {
                    let message = format!("a second source for the objects {watched}; accepted: one a kind");
                    self.problems.push_at(Fault::DuplicateGvk, source, message);
                    continue;
                }
                let listeners = self.listed_pod_listeners(source, &watched);
                self.notices.push(Notice::NoKubernetes(Rc::clone(&instance.id.name)));
                notification_sources.push(NotificationSourcePlan { id: instance.id, watched, listeners });
            } else {
                let message = format!("plugin \"{}\" is not a data source", source.plugin_ref);
                self.problems.push_at(Fault::NotADataSource, source, message);
            }
        }
        self.subscribe(&mut endpoint_sources);
        self.subscribe_to_pods(&mut notification_sources);
        let none = polling.is_empty() && endpoint_sources.is_empty() && notification_sources.is_empty();
        if none && self.problems.is_empty() {
            let message = "the data layer has no sources, and no plugin subscribes to endpoints; \
                           accepted: sources under dataLayer.sources, or injectDefaults: true";
            self.problems.push(Fault::NoSources, None, "dataLayer", message);
        }
        let intervals = polling.iter().map(|p| p.source.plugin.interval());
        let base_tick = tick::base(self.options.refresh_metrics_interval, intervals);
        for plan in &mut polling {
            plan.period_ticks = tick::period(plan.source.plugin.interval(), base_tick);
        }
        let mut endpoint_listeners =
            self.hearing(&[EndpointEvents::Always], |i| i.roles.endpoint_listener.clone());
        endpoint_listeners.extend(self.rosters());
        DataLayerPlan { base_tick, polling, endpoint_sources, endpoint_listeners, notification_sources }
    }

    /// Returns what tells plugins which endpoints there are.
    fn rosters(&self) -> impl Iterator<Item = Hook<dyn EndpointListener>> {
        let hook = |Plugin { instance, .. }: &Plugin| {
            Some(Hook { id: instance.id.clone(), plugin: instance.roles.roster.clone()? })
        };
        self.plugins.iter().filter_map(hook)
    }

    /// Returns the plugins whose type comes to hear of endpoints in one of these ways, under a role.
    fn hearing<T: ?Sized>(
        &self,
        ways: &[EndpointEvents],
        role: fn(&Instance) -> Option<Rc<T>>,
    ) -> Vec<Hook<T>> {
        let hears = |plugin: &&Plugin| {
            let registered = self.registry.get(&plugin.plugin_type);
            registered.is_some_and(|r| ways.contains(&r.info.endpoint_events))
        };
        let hook = |plugin: &Plugin| {
            let instance = &plugin.instance;
            Some(Hook { id: instance.id.clone(), plugin: role(instance)? })
        };
        self.plugins.iter().filter(hears).filter_map(hook).collect()
    }

    /// Binds the plugins that ask for endpoint events to the first source of them, which is added if there is
    /// none; where one of a type is bound already, others of the type are not.
    fn subscribe(&self, sources: &mut Vec<EndpointSourcePlan>) {
        let ways = [EndpointEvents::Subscribed, EndpointEvents::SubscribedWithPods];
        for subscriber in self.hearing(&ways, |i| i.roles.endpoint_listener.clone()) {
            if sources.is_empty() {
                let name: Rc<str> = endpoint_notification_source::TYPE.into();
                let id = TypedName { name: Rc::clone(&name), plugin_type: name };
                sources.push(EndpointSourcePlan { id, listeners: Vec::new() });
            }
            bind_first_of_type(&mut sources[0].listeners, subscriber);
        }
    }

    /// Binds the plugins that ask for pods to the source of pods; where there is none, the first of them brings one.
    fn subscribe_to_pods(&self, sources: &mut Vec<NotificationSourcePlan>) {
        let ways = [EndpointEvents::SubscribedWithPods, EndpointEvents::Pods];
        for subscriber in self.hearing(&ways, |i| i.roles.pod_listener.clone()) {
            let pod = GroupVersionKind::pod();
            if !sources.iter().any(|source| source.watched == pod) {
                let name = format!("{}/pod", subscriber.id.name).into();
                let id = TypedName { name, plugin_type: k8s_notification_source::TYPE.into() };
                sources.push(NotificationSourcePlan { id, watched: pod.clone(), listeners: Vec::new() });
            }
            for source in sources.iter_mut().filter(|source| source.watched == pod) {
                bind_first_of_type(&mut source.listeners, subscriber.clone());
            }
        }
    }

    /// Returns the extractors of a source of events of Kubernetes objects.
    fn listed_pod_listeners(
        &mut self,
        source: &Located<SourceConfig>,
        watched: &GroupVersionKind,
    ) -> Vec<Hook<dyn PodListener>> {
        let mut listeners: Vec<Hook<dyn PodListener>> = Vec::new();
        for reference in &source.extractors {
            let Some(plugin) = self.plugin(&reference.0).cloned() else { continue };
            let way = self.registry.get(&plugin.plugin_type).map(|r| r.info.endpoint_events);
            let instance = Some(plugin.instance).filter(|_| way == Some(EndpointEvents::Pods));
            match instance.and_then(|i| Some((i.id, i.roles.pod_listener?))) {
                Some(_) if *watched != GroupVersionKind::pod() => {
                    let message = format!("plugin \"{}\" takes pods, not the objects {watched}", reference.0);
                    self.problems.push_at(Fault::GvkMismatch, reference, message);
                }
                Some((id, _)) if listeners.iter().any(|l| l.id.plugin_type == id.plugin_type) => {
                    self.refuse_second_extractor(source, reference, &id.plugin_type);
                }
                Some((id, listener)) => listeners.push(Hook { id, plugin: listener }),
                None => {
                    let message = format!(
                        "plugin \"{}\" does not take the notifications of \"{}\"",
                        reference.0, source.plugin_ref
                    );
                    self.problems.push_at(Fault::WrongExtractorRole, reference, message);
                }
            }
        }
        listeners
    }

    /// Returns the extractors of a source of endpoint events.
    fn listed_listeners(&mut self, source: &Located<SourceConfig>) -> Vec<Hook<dyn EndpointListener>> {
        let mut listeners: Vec<Hook<dyn EndpointListener>> = Vec::new();
        for reference in &source.extractors {
            let Some(plugin) = self.plugin(&reference.0).cloned() else { continue };
            let way = self.registry.get(&plugin.plugin_type).map(|r| r.info.endpoint_events);
            let listable = matches!(way, Some(EndpointEvents::Listed | EndpointEvents::Subscribed));
            let instance = Some(plugin.instance).filter(|_| listable);
            match instance.and_then(|i| Some((i.id, i.roles.endpoint_listener?))) {
                Some((id, _)) if listeners.iter().any(|l| l.id.plugin_type == id.plugin_type) => {
                    self.refuse_second_extractor(source, reference, &id.plugin_type);
                }
                Some((id, listener)) => listeners.push(Hook { id, plugin: listener }),
                None => {
                    let message = format!(
                        "plugin \"{}\" does not take the endpoint events of \"{}\"",
                        reference.0, source.plugin_ref
                    );
                    self.problems.push_at(Fault::WrongExtractorRole, reference, message);
                }
            }
        }
        listeners
    }

    fn plan_polling(
        &mut self,
        source: &Located<SourceConfig>,
        polled: Hook<dyn PollingSource>,
        earlier: &[PollingPlan],
    ) -> PollingPlan {
        let name = &source.plugin_ref;
        let mut extractors: Vec<Hook<dyn Extractor>> = Vec::new();
        for reference in &source.extractors {
            let Some(plugin) = self.instance(&reference.0).cloned() else { continue };
            if extractors.iter().any(|e| e.id.plugin_type == plugin.id.plugin_type) {
                self.refuse_second_extractor(source, reference, &plugin.id.plugin_type);
            }
            match plugin.roles.extractor {
                Some(extractor) if extractor.payload() == polled.plugin.payload() => {
                    extractors.push(Hook { id: plugin.id, plugin: extractor });
                }
                _ => {
                    let message =
                        format!("plugin \"{}\" cannot read what the source \"{name}\" fetches", reference.0);
                    self.problems.push_at(Fault::ExtractorPayloadMismatch, reference, message);
                }
            }
        }
        if earlier.iter().any(|p| p.source.id.name == polled.id.name) {
            let message = format!("the data source \"{name}\" is listed twice");
            self.problems.push_at(Fault::DuplicateSource, source, message);
        }
        PollingPlan { source: polled, period_ticks: 1, extractors }
    }

    fn refuse_second_extractor(
        &mut self,
        source: &Located<SourceConfig>,
        reference: &Located<PluginRef>,
        plugin_type: &str,
    ) {
        let message =
            format!("a second extractor of type {plugin_type} on the source \"{}\"", source.plugin_ref);
        self.problems.push_at(Fault::DuplicateExtractorType, reference, message);
    }
}

fn bind_first_of_type<T: ?Sized>(bound: &mut Vec<Hook<T>>, hook: Hook<T>) {
    if !bound.iter().any(|b| b.id.plugin_type == hook.id.plugin_type) {
        bound.push(hook);
    }
}
