use serde::{Deserialize, Serialize};

use super::revisions::{Mode, Revisions};
use super::{HeaderSelector, TYPE};
use crate::plugin::{FactoryError, ParameterError, Parameters};
use crate::scheduling::filters::LabelSelectorText;

/// Parameters of the type.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RolloutScreenerParameters {
    /// Which pods count.
    pub scope: ScopeParameters,
    /// Headers that choose endpoints by a label.
    pub header_selectors: Vec<HeaderSelectorParameters>,
    /// How a revision is chosen; required.
    pub revision_gating: Option<RevisionGatingParameters>,
}

/// Which pods count.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ScopeParameters {
    /// Kubernetes label selector; required.
    pub label_selector: String,
}

/// A header that chooses endpoints by a label; every part is required.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct HeaderSelectorParameters {
    /// Its name in metrics.
    pub name: String,
    /// The header, in any case.
    pub header_name: String,
    /// The label that it is compared with.
    pub label_key: String,
    /// `strict` or `prefer`.
    pub mode: String,
}

/// How a revision is chosen.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RevisionGatingParameters {
    /// `sum`, `max-role` or `disabled`.
    pub mode: String,
    /// Roles without which a revision cannot serve; required unless disabled.
    pub require_roles: Option<RequireRolesParameters>,
    /// Label of a pod's revision.
    pub revision_label_key: String,
    /// Label of a pod's role.
    pub role_label_key: String,
}

/// Roles without which a revision cannot serve.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RequireRolesParameters {
    /// The roles, each once.
    pub values: Vec<String>,
}

/// What parameters amount to: selectors, and the gating unless it is disabled.
pub(super) fn read(
    parameters: &Parameters,
) -> Result<(Vec<HeaderSelector>, Option<Revisions>), FactoryError> {
    if parameters.value().is_none_or(serde_json::Value::is_null) {
        return Err(ParameterError::new(format!("{TYPE} requires parameters")).into());
    }
    let RolloutScreenerParameters { scope, header_selectors, revision_gating } = parameters.decode()?;
    if scope.label_selector.is_empty() {
        return Err(refused("scope.labelSelector is required"));
    }
    let scope = LabelSelectorText::parse(&scope.label_selector)
        .map_err(|error| refused(format!("scope.labelSelector is not a valid label selector: {error}")))?;
    let selectors = selectors(header_selectors)?;
    let Some(gating) = revision_gating else { return Err(refused("revisionGating is required")) };
    let mode = match gating.mode.as_str() {
        "disabled" => return Ok((selectors, None)),
        "sum" => Mode::Sum,
        "max-role" => Mode::MaxRole,
        other => {
            let message = format!("revisionGating.mode \"{other}\" must be one of sum|max-role|disabled");
            return Err(refused(message));
        }
    };
    let Some(RequireRolesParameters { values: roles }) = gating.require_roles else {
        let message =
            format!("revisionGating.requireRoles is required when revisionGating.mode={}", gating.mode);
        return Err(refused(message));
    };
    if roles.is_empty() {
        return Err(refused("revisionGating.requireRoles.values must contain at least one role"));
    }
    for (at, role) in roles.iter().enumerate() {
        let place = "revisionGating.requireRoles.values";
        if role.is_empty() {
            return Err(refused(format!("{place}[{at}] must not be empty")));
        }
        if roles[..at].contains(role) {
            return Err(refused(format!("{place} contains duplicate role \"{role}\"")));
        }
    }
    let label = |key: String, usual: &str| if key.is_empty() { usual.to_owned() } else { key };
    let revision = label(gating.revision_label_key, "disaggregatedset.x-k8s.io/revision");
    let role = label(gating.role_label_key, "disaggregatedset.x-k8s.io/role");
    Ok((selectors, Some(Revisions::new(scope, mode, roles, revision, role))))
}

fn selectors(given: Vec<HeaderSelectorParameters>) -> Result<Vec<HeaderSelector>, FactoryError> {
    let mut selectors: Vec<HeaderSelector> = Vec::with_capacity(given.len());
    for (at, selector) in given.into_iter().enumerate() {
        let place = format!("headerSelectors[{at}]");
        let HeaderSelectorParameters { name, header_name, label_key, mode } = selector;
        for (part, value) in [("name", &name), ("headerName", &header_name), ("labelKey", &label_key)] {
            if value.is_empty() {
                return Err(refused(format!("{place}.{part} is required")));
            }
        }
        let strict = match mode.as_str() {
            "strict" => true,
            "prefer" => false,
            other => {
                return Err(refused(format!("{place}.mode \"{other}\" must be one of strict|prefer")));
            }
        };
        let header = header_name.to_lowercase();
        if selectors.iter().any(|other| other.name == name) {
            return Err(refused(format!("headerSelectors: duplicate name \"{name}\"")));
        }
        if selectors.iter().any(|other| other.header == header) {
            return Err(refused(format!("headerSelectors: duplicate headerName \"{header}\"")));
        }
        selectors.push(HeaderSelector { name, header, label: label_key, strict });
    }
    Ok(selectors)
}

fn refused(message: impl Into<String>) -> FactoryError {
    ParameterError::new(message).into()
}
