//! `models-data-source`: the models that a server offers (configuration spec 6.4).

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::http_source::{BODY_LIMIT, HttpSource, Tls};
use super::{Payload, PayloadKind, PollingSource};
use crate::attributes::ModelInfo;
use crate::endpoint::EndpointMetadata;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// The plugin type.
pub const TYPE: &str = "models-data-source";

/// Parameters of [`TYPE`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ModelsSourceParameters {
    /// `http` (default) or `https`.
    pub scheme: Option<String>,
    /// Default `/v1/models`.
    pub path: Option<String>,
    /// Whether a server's certificate goes unverified; default yes.
    pub insecure_skip_verify: Option<bool>,
    /// File with the certificates to trust.
    pub ca_cert_path: String,
    /// File with the certificate to show.
    pub client_cert_path: String,
    /// File with its key.
    pub client_key_path: String,
    /// Go duration; empty = every base tick.
    pub interval: String,
}

/// Polls and reads the list of models of a server.
#[derive(Clone, Debug)]
pub struct ModelsDataSource {
    http: HttpSource,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let parameters: ModelsSourceParameters = parameters.decode()?;
    let http = HttpSource::new(
        parameters.scheme.as_deref().unwrap_or("http"),
        parameters.path.as_deref().unwrap_or("/v1/models"),
        &parameters.interval,
    )
    .map_err(FactoryError::Other)?;
    http.check_tls(Tls {
        skip_verify: parameters.insecure_skip_verify.unwrap_or(true),
        ca_cert: &parameters.ca_cert_path,
        client_cert: &parameters.client_cert_path,
        client_key: &parameters.client_key_path,
    })
    .map_err(FactoryError::Other)?;
    let source = Rc::new(ModelsDataSource { http });
    Ok(Instance::new(TYPE, name, Roles { polling_source: Some(source), ..Roles::default() }))
}

/// The page: unknown fields are ignored, null stands for nothing.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    data: Option<Vec<Option<Model>>>,
}

#[derive(Default, Deserialize)]
struct Model {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    parent: Option<String>,
}

impl PollingSource for ModelsDataSource {
    fn url(&self, endpoint: &EndpointMetadata) -> String {
        self.http.url(endpoint)
    }

    fn interval(&self) -> Duration {
        self.http.interval()
    }

    fn payload(&self) -> PayloadKind {
        PayloadKind::Models
    }

    fn body_limit(&self) -> usize {
        BODY_LIMIT
    }

    fn decode(&self, body: Bytes) -> Result<Payload, String> {
        // Over `Value`, where the last of two equal keys counts.
        let page: serde_json::Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let page: Option<Page> = match page {
            // Serde would take a list for the fields in order.
            serde_json::Value::Array(_) => return Err("expected an object, found a list".into()),
            page => serde_json::from_value(page).map_err(|error| error.to_string())?,
        };
        let model = |model: Option<Model>| {
            let Model { id, parent } = model.unwrap_or_default();
            ModelInfo { id: id.unwrap_or_default(), parent: parent.unwrap_or_default() }
        };
        let data = page.and_then(|page| page.data);
        Ok(Payload::Models(data.map(|models| models.into_iter().map(model).collect())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Configuration spec 6.4: unknown fields are ignored, no list is no attribute.
    #[test]
    fn a_page_lists_models_and_their_parents() {
        let source = ModelsDataSource { http: HttpSource::new("http", "/v1/models", "").expect("a source") };
        let models = |body: &'static str| match source.decode(Bytes::from_static(body.as_bytes())) {
            Ok(Payload::Models(models)) => {
                Ok(models.map(|list| list.into_iter().map(|m| format!("{}<{}", m.id, m.parent)).collect()))
            }
            Ok(Payload::Metrics(_)) => panic!("a list of models was asked for"),
            Err(error) => Err(error),
        };
        let page =
            r#"{"object":"list","data":[{"id":"base","created":1},{"id":"lora","parent":"base"}],"x":1}"#;
        let list: Vec<String> = vec!["base<".to_owned(), "lora<base".to_owned()];
        assert_eq!(models(page), Ok(Some(list)));
        assert_eq!(models(r#"{"object":"list","data":[]}"#), Ok(Some(vec![])));
        for without in [r#"{"object":"list"}"#, r#"{"data":null}"#, "{}"] {
            assert_eq!(models(without), Ok(None), "{without}");
        }
        for broken in ["", "[]", "{", r#"{"data":{}}"#, r#"{"data":[{"id":5}]}"#] {
            assert!(models(broken).is_err(), "{broken}");
        }
    }
}
