//! `file-discovery` and `multicluster-file-discovery`: the endpoints stand in a file (configuration spec 7.1,
//! 7.2).

mod document;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use executor::{Missed, Rt};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};

use super::{Discovery, EndpointNotifier};
use crate::endpoint::{EndpointId, EndpointMetadata};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

use document::Entry;

/// The plugin type.
pub const TYPE: &str = "file-discovery";
/// The plugin type whose endpoints are the entry points of other clusters.
pub const MULTICLUSTER_TYPE: &str = "multicluster-file-discovery";

/// No file may be larger. Unit: bytes.
const MAX_FILE: u64 = 1 << 20;
/// How often a watched file is looked at.
const WATCH_PERIOD: Duration = Duration::from_millis(500);
/// Namespace of entries that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// Parameters of both types.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct FileDiscoveryParameters {
    /// The file.
    pub path: String,
    /// Whether changes of the file are followed.
    pub watch_file: bool,
}

/// Why a load failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The file is too large.
    #[error("{0}: exceeds 1 MiB limit")]
    TooLarge(String),
    /// The file is neither YAML nor JSON.
    #[error("{0}")]
    Syntax(String),
    /// The file holds something else than a list of endpoints.
    #[error("{0}")]
    Shape(String),
    /// Some entries are wrong; the others have been taken.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Entries(Vec<EntryError>),
}

/// What is wrong with an entry of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: endpoint {name:?}: {problem}")]
pub struct EntryError {
    /// `file:line:column`.
    pub place: String,
    /// Name of the entry.
    pub name: String,
    /// What is wrong.
    pub problem: EntryProblem,
}

/// What is wrong with an entry of the file; the address is looked at first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryProblem {
    /// Not an IPv4 address.
    #[error("invalid IPv4 address {0:?}")]
    Address(String),
    /// Neither an IP address nor a host name.
    #[error("invalid host {0:?}; expected an IP address or a host name in lower case")]
    Host(String),
    /// Not a port.
    #[error("invalid port {0:?}; expected a number from 1 to 65535, as text")]
    Port(String),
}

/// Which addresses are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Pods: IPv4.
    Pods,
    /// Clusters: any IP or host name; labels say where the metrics are.
    Clusters,
}

/// Reports the endpoints of a file, and follows its changes if so configured.
#[derive(Debug)]
pub struct FileDiscovery {
    path: PathBuf,
    watch: bool,
    rule: Rule,
    /// Endpoints of the last load that got as far as the entries.
    known: RefCell<BTreeSet<EndpointId>>,
}

/// Builds an instance of [`TYPE`].
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    instance(TYPE, name, parameters)
}

/// Builds an instance of [`MULTICLUSTER_TYPE`].
pub fn multicluster_factory(
    name: &str,
    parameters: &Parameters,
    _: &Handle,
) -> Result<Instance, FactoryError> {
    instance(MULTICLUSTER_TYPE, name, parameters)
}

fn instance(plugin_type: &str, name: &str, parameters: &Parameters) -> Result<Instance, FactoryError> {
    let discovery = Rc::new(FileDiscovery::new(plugin_type, parameters)?);
    Ok(Instance::new(plugin_type, name, Roles { discovery: Some(discovery), ..Roles::default() }))
}

impl Discovery for FileDiscovery {
    fn load<'a>(
        &'a self,
        rt: &'a Rt,
        notifier: &'a dyn EndpointNotifier,
    ) -> LocalBoxFuture<'a, Result<(), String>> {
        async {
            let loaded = FileDiscovery::load(self, rt, notifier).await;
            loaded.map_err(|error| format!("file-discovery: initial load failed: {error}"))
        }
        .boxed_local()
    }

    fn follow<'a>(&'a self, rt: &'a Rt, notifier: &'a dyn EndpointNotifier) -> LocalBoxFuture<'a, ()> {
        async {
            if self.watch {
                self.watch(rt, notifier).await;
            }
        }
        .boxed_local()
    }
}

impl FileDiscovery {
    /// Returns the discovery of one of the two plugin types.
    pub fn new(plugin_type: &str, parameters: &Parameters) -> Result<Self, FactoryError> {
        let parameters: FileDiscoveryParameters = parameters.decode()?;
        if parameters.path.is_empty() {
            return Err(FactoryError::Other(format!("{plugin_type}: 'path' parameter is required")));
        }
        let rule = if plugin_type == MULTICLUSTER_TYPE { Rule::Clusters } else { Rule::Pods };
        Ok(FileDiscovery {
            path: parameters.path.into(),
            watch: parameters.watch_file,
            rule,
            known: RefCell::default(),
        })
    }

    /// Reads the file once and reports what it says: all good entries in order, then the endpoints that are not
    /// in it any more, in order of their IDs.
    ///
    /// # Errors
    /// [`LoadError::Entries`] after the good entries were reported; any other before anything was.
    pub async fn load(&self, rt: &Rt, notifier: &dyn EndpointNotifier) -> Result<(), LoadError> {
        let path = self.path.clone();
        let name = self.path.display().to_string();
        let bytes = match rt.blocking("discovery file", move || read(&path)).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(LoadError::TooLarge(name)),
            Err(error) => return Err(LoadError::Unreadable { path: name, reason: error.to_string() }),
        };
        let text =
            String::from_utf8(bytes).map_err(|_| LoadError::Syntax(format!("{name}: not UTF-8 text")))?;
        self.apply(&name, document::parse(&name, &text)?, notifier)
    }

    fn apply(
        &self,
        file: &str,
        entries: Vec<Entry>,
        notifier: &dyn EndpointNotifier,
    ) -> Result<(), LoadError> {
        let mut errors = Vec::new();
        let mut current = BTreeSet::new();
        for entry in entries {
            let place = format!("{file}:{}", entry.at);
            let name = entry.name.clone();
            match self.metadata(entry) {
                Ok(metadata) => {
                    current.insert(metadata.id.clone());
                    notifier.upsert(metadata);
                }
                Err(problem) => errors.push(EntryError { place, name, problem }),
            }
        }
        let before = std::mem::replace(&mut *self.known.borrow_mut(), current.clone());
        for id in before.difference(&current) {
            notifier.delete(id);
        }
        if errors.is_empty() { Ok(()) } else { Err(LoadError::Entries(errors)) }
    }

    /// Returns the endpoints of the last load, in order of their IDs.
    pub fn known(&self) -> Vec<EndpointId> {
        self.known.borrow().iter().cloned().collect()
    }

    fn metadata(&self, entry: Entry) -> Result<EndpointMetadata, EntryProblem> {
        let Entry { name, namespace, address, port, labels, .. } = entry;
        match self.rule {
            Rule::Pods if !is_ipv4(&address) => return Err(EntryProblem::Address(address)),
            Rule::Clusters if !is_host(&address) => return Err(EntryProblem::Host(address)),
            _ => {}
        }
        if !port.parse().is_ok_and(|port: i64| (1..=65535).contains(&port)) {
            return Err(EntryProblem::Port(port));
        }
        let label = |key: &str| labels.get(key).map(String::as_str).filter(|value| !value.is_empty());
        let metrics_host = match label("metricsAddress") {
            Some(host) if self.rule == Rule::Clusters => {
                host_port(host, label("metricsPort").unwrap_or(&port))
            }
            _ => host_port(&address, &port),
        };
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE.to_owned() } else { namespace };
        Ok(EndpointMetadata {
            id: EndpointId::new(namespace, name.clone()),
            name,
            address,
            node_address: String::new(),
            port,
            metrics_host,
            labels,
            rank_index: 0,
        })
    }

    /// Loads the file whenever it has changed and then stayed the same for one period, so that a file that is
    /// just being written is left alone. Never returns.
    async fn watch(&self, rt: &Rt, notifier: &dyn EndpointNotifier) {
        let mut ticker = rt.interval_at(rt.now() + WATCH_PERIOD, WATCH_PERIOD, Missed::Delay);
        let mut loaded = self.stamp(rt).await;
        let mut last = loaded;
        loop {
            ticker.tick().await;
            let stamp = self.stamp(rt).await;
            if stamp != loaded && stamp == last {
                loaded = stamp;
                match self.load(rt, notifier).await {
                    Ok(()) => tracing::info!(path = %self.path.display(), "endpoints reloaded"),
                    Err(error) => tracing::error!(%error, "endpoints not reloaded"),
                }
            }
            last = stamp;
        }
    }

    /// What changes when the file does; `None` where there is no file.
    async fn stamp(&self, rt: &Rt) -> Option<(Option<SystemTime>, u64)> {
        let path = self.path.clone();
        rt.blocking("discovery file", move || {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok(), metadata.len()))
        })
        .await
    }
}

/// Reads a file, `None` where it is too large.
fn read(path: &std::path::Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MAX_FILE).then_some(bytes))
}

fn is_ipv4(address: &str) -> bool {
    match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => true,
        Ok(std::net::IpAddr::V6(v6)) => v6.to_ipv4_mapped().is_some(),
        Err(_) => false,
    }
}

/// Whether a text is an IP address or a DNS name in lower case.
fn is_host(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        let (first, last) = (label.bytes().next(), label.bytes().last());
        first.is_some_and(inner) && last.is_some_and(inner) && label.bytes().all(|b| inner(b) || b == b'-')
    };
    text.parse::<std::net::IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(label))
}

fn host_port(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests;
