//! `k8s-notification-source`: passes on what happens to the Kubernetes objects of one kind (configuration spec 6.7).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plugin::{FactoryError, Handle, Instance, ParameterError, Parameters, Roles};

/// The plugin type.
pub const TYPE: &str = "k8s-notification-source";

/// A kind of Kubernetes objects; prints as `group/version/kind`, the core group's name being empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// API group, empty for the core group.
    pub group: String,
    /// Version of the group.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl GroupVersionKind {
    /// Returns the kind of pods, which the release's own listeners ask for.
    pub fn pod() -> Self {
        GroupVersionKind { group: String::new(), version: "v1".into(), kind: "Pod".into() }
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group, self.version, self.kind)
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct NotificationParameters {
    /// API group; empty = the core group.
    group: String,
    version: String,
    kind: String,
}

/// Builds an instance, which has nothing to do itself: events reach its listeners from a Kubernetes client, and
/// without one, as in file discovery, there are none.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let NotificationParameters { group, version, kind } = parameters.decode()?;
    for (key, value) in [("version", &version), ("kind", &kind)] {
        if value.is_empty() {
            let message =
                format!("{key} is required: the source watches one kind, such as version v1, kind Pod");
            return Err(ParameterError::new(message).into());
        }
    }
    let watched = GroupVersionKind { group, version, kind };
    Ok(Instance::new(TYPE, name, Roles { notification_source: Some(watched), ..Roles::default() }))
}

#[cfg(test)]
mod tests {
    use executor::Real;
    use serde_json::{Value, json};

    use super::*;

    /// Configuration spec 6.7.
    #[test]
    fn version_and_kind_are_required() {
        let runtime = Real::builder().current_thread().build().expect("the runtime starts");
        let built =
            |parameters: Value| factory("source", &Parameters::new(parameters), &Handle::new(runtime.rt()));
        let watched = |parameters| built(parameters).unwrap().roles.notification_source.unwrap();
        assert_eq!(watched(json!({ "version": "v1", "kind": "Pod" })), GroupVersionKind::pod());
        let leases = json!({ "group": "coordination.k8s.io", "version": "v1", "kind": "Lease" });
        assert_eq!(watched(leases).to_string(), "coordination.k8s.io/v1/Lease");
        for (parameters, missing) in [
            (json!({}), "version"),
            (Value::Null, "version"),
            (json!({ "version": "v1" }), "kind"),
            (json!({ "kind": "Pod" }), "version"),
        ] {
            let error = built(parameters.clone()).expect_err("it lacks something").to_string();
            assert!(error.contains(&format!("{missing} is required")), "{parameters}: {error}");
        }
        assert!(built(json!({ "version": "v1", "kind": "Pod", "zone": "a" })).is_err());
    }
}
