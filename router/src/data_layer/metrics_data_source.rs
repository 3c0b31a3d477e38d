//! `metrics-data-source` and `multicluster-metrics-data-source`: the metrics page of a server (configuration
//! spec 6.2).

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::families::Families;
use super::http_source::{BODY_LIMIT, HttpSource, Tls};
use super::text_format::Exposition;
use super::{Payload, PayloadKind, PollingSource};
use crate::endpoint::EndpointMetadata;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// The plugin type.
pub const TYPE: &str = "metrics-data-source";
/// The plugin type for the metrics pages of other clusters' routers.
pub const MULTICLUSTER_TYPE: &str = "multicluster-metrics-data-source";

/// How much of another cluster's page is read. Unit: bytes.
const MULTICLUSTER_BODY_LIMIT: usize = 8 << 20;

/// Parameters of both types.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MetricsSourceParameters {
    /// `http` or `https`; default `http`, for other clusters `https`.
    pub scheme: Option<String>,
    /// Default `/metrics`.
    pub path: Option<String>,
    /// Polls this port of every endpoint, 1..65535; other clusters' sources ignore it.
    pub port: Option<i64>,
    /// Whether a server's certificate goes unverified; default yes, for other clusters no.
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

/// Polls and reads the metrics page of a server.
#[derive(Clone, Debug)]
pub struct MetricsDataSource {
    http: HttpSource,
    body_limit: usize,
}

/// Builds an instance of [`TYPE`].
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let parameters: MetricsSourceParameters = parameters.decode()?;
    let mut http = http(&parameters, "http", true).map_err(FactoryError::Other)?;
    if let Some(port) = parameters.port {
        let port = u16::try_from(port).ok().filter(|port| *port != 0).ok_or_else(|| {
            FactoryError::Other(format!("invalid port {port}: must be between 1 and 65535"))
        })?;
        http = http.with_port(port.into());
    }
    Ok(instance(TYPE, name, MetricsDataSource { http, body_limit: BODY_LIMIT }))
}

/// Builds an instance of [`MULTICLUSTER_TYPE`].
pub fn multicluster_factory(
    name: &str,
    parameters: &Parameters,
    _: &Handle,
) -> Result<Instance, FactoryError> {
    let http = http(&parameters.decode()?, "https", false).map_err(FactoryError::Other)?;
    let source = MetricsDataSource { http, body_limit: MULTICLUSTER_BODY_LIMIT };
    Ok(instance(MULTICLUSTER_TYPE, name, source))
}

fn http(parameters: &MetricsSourceParameters, scheme: &str, skip_verify: bool) -> Result<HttpSource, String> {
    let scheme = parameters.scheme.as_deref().unwrap_or(scheme);
    let path = parameters.path.as_deref().unwrap_or("/metrics");
    let http = HttpSource::new(scheme, path, &parameters.interval)?;
    http.check_tls(Tls {
        skip_verify: parameters.insecure_skip_verify.unwrap_or(skip_verify),
        ca_cert: &parameters.ca_cert_path,
        client_cert: &parameters.client_cert_path,
        client_key: &parameters.client_key_path,
    })?;
    Ok(http)
}

fn instance(plugin_type: &str, name: &str, source: MetricsDataSource) -> Instance {
    Instance::new(plugin_type, name, Roles { polling_source: Some(Rc::new(source)), ..Roles::default() })
}

impl PollingSource for MetricsDataSource {
    fn url(&self, endpoint: &EndpointMetadata) -> String {
        self.http.url(endpoint)
    }

    fn interval(&self) -> Duration {
        self.http.interval()
    }

    fn payload(&self) -> PayloadKind {
        PayloadKind::Metrics
    }

    fn body_limit(&self) -> usize {
        self.body_limit
    }

    fn decode(&self, body: Bytes) -> Result<Payload, String> {
        let exposition = Exposition::parse(body).map_err(|error| error.to_string())?;
        Ok(Payload::Metrics(Families::Text(exposition)))
    }
}
