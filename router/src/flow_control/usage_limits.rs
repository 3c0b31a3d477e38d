//! Usage-limit policies: how full the pool may be for each band to dispatch (flow-control spec 11).

pub mod priority_holdback_policy;
pub mod soft_reflective_ceiling_policy;
pub mod static_usage_limit_policy;

use std::rc::Rc;

use crate::plugin::{Factory, Instance, Roles};

/// The usage-limit policy types that are built, each with its factory.
pub const TYPES: &[(&str, Factory)] = &[
    (priority_holdback_policy::TYPE, priority_holdback_policy::factory),
    (soft_reflective_ceiling_policy::TYPE, soft_reflective_ceiling_policy::factory),
    (static_usage_limit_policy::TYPE, static_usage_limit_policy::factory),
];

/// Says how full the pool may be for each band.
pub trait UsageLimitPolicy {
    /// Sets for each band the saturation from which on it does not dispatch; called once a dispatch cycle.
    ///
    /// `priorities` are those of all bands, with traffic or without, the highest first; `ceilings` has as many entries,
    /// 1.0 each.
    fn limit(&self, saturation: f64, priorities: &[i64], ceilings: &mut [f64]);

    /// Returns whether the ceilings depend on how often the policy was asked: then no dispatch cycle may be left out.
    fn counts_cycles(&self) -> bool {
        false
    }
}

fn instance(plugin_type: &str, name: &str, policy: impl UsageLimitPolicy + 'static) -> Instance {
    let roles = Roles { usage_limit_policy: Some(Rc::new(policy)), ..Roles::default() };
    Instance::new(plugin_type, name, roles)
}
