//! `endpoint-notification-source`: passes the comings and goings of endpoints on (configuration spec 6.7).

use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// The plugin type.
pub const TYPE: &str = "endpoint-notification-source";

/// Builds an instance; parameters are not looked at.
///
/// The source has nothing to do: the [`datastore`](super::datastore) tells every bound listener itself. Its
/// place in a configuration is to bind listeners in an order of the user's choice.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles { endpoint_source: true, ..Roles::default() }))
}
