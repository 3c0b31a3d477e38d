//! Saturation detector and flow control (flow-control spec 1, 2).

use std::rc::Rc;
use std::time::Duration;

use super::Loader;
use crate::admission::SaturationDetector;
use crate::config::fault::Fault;
use crate::config::problem::{Located, accepted_instead};
use crate::config::schema::{FlowControlConfig, PriorityBand, Quantity};
use crate::flow_control::fairness::FairnessPolicy;
use crate::flow_control::ordering::OrderingPolicy;
use crate::flow_control::{BandSettings, ControllerSettings, RegistrySettings, Settings};
use crate::plugin::{Hook, Roles};

const FAIRNESS: &str = "global-strict-fairness-policy";
const ORDERING: &str = "fcfs-ordering-policy";
const USAGE_LIMITS: &str = "static-usage-limit-policy";

impl Loader<'_> {
    /// Returns what flow control is to do; `None` where it is off, and where a problem was reported.
    pub(super) fn build_flow_control(&mut self) -> Option<Settings> {
        if !self.gates.flow_control {
            return None;
        }
        let absent = FlowControlConfig::default();
        let section = self.config.flow_control.as_ref().unwrap_or(&absent);
        let defaults = (self.ordering(None), self.fairness(None));
        let max_bytes = self.quantity(section.max_bytes.as_ref(), "global MaxBytes");
        let max_requests = self.quantity(section.max_requests.as_ref(), "global MaxRequests");
        let template = Located::nowhere(PriorityBand::default());
        let template = section.default_priority_band.as_ref().unwrap_or(&template);
        let default_band = self.band(template, "default priority band");
        let negative = section.default_negative_priority_band.as_ref();
        let default_negative_band = negative.map(|band| self.band(band, "default negative priority band"));
        let bands = self.static_bands(&section.priority_bands);
        let controller = self.controller(section);
        let usage_limits =
            self.policy(section.usage_limit_policy.as_ref(), USAGE_LIMITS, "a usage-limit policy", |roles| {
                roles.usage_limit_policy.clone()
            });
        let (Some(_), Some(_)) = defaults else { return None };
        let default_band = default_band?;
        let mut bands = bands?;
        if !bands.iter().any(|band| band.priority == 0) {
            bands.push(BandSettings { priority: 0, ..default_band.clone() });
        }
        bands.sort_by_key(|band| std::cmp::Reverse(band.priority));
        let registry = RegistrySettings {
            max_bytes: max_bytes?,
            max_requests: max_requests?,
            flow_gc_timeout: RegistrySettings::FLOW_GC_TIMEOUT,
            priority_band_gc_timeout: RegistrySettings::PRIORITY_BAND_GC_TIMEOUT,
            bands,
            default_band,
            default_negative_band: match default_negative_band {
                Some(band) => Some(band?),
                None => None,
            },
        };
        Some(Settings { controller: controller?, registry, usage_limits: usage_limits? })
    }

    /// Returns the detector; `None` where a problem was reported.
    pub(super) fn build_saturation_detector(
        &mut self,
        reference: &Located<String>,
    ) -> Option<Hook<dyn SaturationDetector>> {
        let instance = self.instance(reference);
        let found = instance.and_then(|instance| {
            let plugin = instance.roles.saturation_detector.clone()?;
            Some(Hook { id: instance.id.clone(), plugin })
        });
        if found.is_none() {
            let message = format!("plugin \"{}\" is not a saturation detector", reference.value);
            self.problems.push_at(Fault::WrongSaturationDetectorRole, reference, message);
        }
        found
    }

    fn static_bands(&mut self, written: &[Located<PriorityBand>]) -> Option<Vec<BandSettings>> {
        let bands: Vec<_> =
            written.iter().map(|band| self.band(band, &format!("priority band {}", band.priority))).collect();
        for (i, band) in written.iter().enumerate() {
            if let Some(first) = written[..i].iter().find(|other| other.priority == band.priority) {
                let message =
                    format!("duplicate priority level {}, first given at {}", band.priority, first.path);
                self.problems.push_at(Fault::DuplicatePriority, band, message);
            }
        }
        bands.into_iter().collect()
    }

    fn band(&mut self, band: &Located<PriorityBand>, label: &str) -> Option<BandSettings> {
        let max_bytes = self.quantity(band.max_bytes.as_ref(), &format!("{label} MaxBytes"));
        let max_requests = self.quantity(band.max_requests.as_ref(), &format!("{label} MaxRequests"));
        let ordering = self.ordering(band.ordering_policy.as_ref());
        let fairness = self.fairness(band.fairness_policy.as_ref());
        // Zero is what was not said: a band always has limits.
        let or = |limit: u64, default| if limit == 0 { default } else { limit };
        Some(BandSettings {
            priority: band.priority,
            max_bytes: or(max_bytes?, BandSettings::MAX_BYTES),
            max_requests: or(max_requests?, BandSettings::MAX_REQUESTS),
            fairness: fairness?,
            ordering: ordering?,
        })
    }

    fn controller(&mut self, section: &FlowControlConfig) -> Option<ControllerSettings> {
        let mut settings =
            ControllerSettings { enable_eviction: section.enable_eviction, ..ControllerSettings::default() };
        if let Some(ttl) = &section.default_request_ttl {
            let Ok(nanos) = u64::try_from(ttl.value.0) else {
                let message = format!("DefaultRequestTTL cannot be negative, but got {} ns", ttl.value.0);
                self.problems.push_at(Fault::NegativeTtl, ttl, message);
                return None;
            };
            settings.default_request_ttl = Duration::from_nanos(nanos);
        }
        Some(settings)
    }

    /// Returns a limit, zero where it is not given.
    fn quantity(&mut self, written: Option<&Located<Quantity>>, label: &str) -> Option<u64> {
        let Some(quantity) = written else { return Some(0) };
        let limit = u64::try_from(quantity.value.0).ok();
        if limit.is_none() {
            let message = format!("{label} must be non-negative, got {}", quantity.value.0);
            self.problems.push_at(Fault::NegativeQuantity, quantity, message);
        }
        limit
    }

    fn fairness(&mut self, reference: Option<&Located<String>>) -> Option<Hook<dyn FairnessPolicy>> {
        self.policy(reference, FAIRNESS, "a fairness policy", |roles| roles.fairness_policy.clone())
    }

    fn ordering(&mut self, reference: Option<&Located<String>>) -> Option<Hook<dyn OrderingPolicy>> {
        self.policy(reference, ORDERING, "an ordering policy", |roles| roles.ordering_policy.clone())
    }

    /// Returns the policy that is referred to, or the one of the default name.
    fn policy<T: ?Sized>(
        &mut self,
        reference: Option<&Located<String>>,
        default: &str,
        what: &str,
        role: impl Fn(&Roles) -> Option<Rc<T>>,
    ) -> Option<Hook<T>> {
        let default = Located::nowhere(default.to_owned());
        let reference = reference.unwrap_or(&default);
        let Some(instance) = self.instance(reference) else {
            let names: Vec<_> = self.plugins.iter().filter(|p| role(&p.instance.roles).is_some()).collect();
            let names: Vec<&str> = names.iter().map(|p| &*p.name).collect();
            let instead = accepted_instead(reference, &names);
            let message = format!("plugin \"{}\" not found{instead}", reference.value);
            self.problems.push_at(Fault::UndefinedPolicy, reference, message);
            return None;
        };
        if let Some(plugin) = role(&instance.roles) {
            return Some(Hook { id: instance.id.clone(), plugin });
        }
        let message = format!(
            "plugin \"{}\" is not {what} (actual type: {})",
            reference.value, instance.id.plugin_type
        );
        self.problems.push_at(Fault::WrongPolicyRole, reference, message);
        None
    }
}
