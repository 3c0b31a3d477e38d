//! Who needs whose data: completes the producers and puts them in order (configuration spec 2.6).

use thiserror::Error;

use super::fault::Fault;
use crate::data_key::DataKey;
use crate::plugin::{DataFlow, Instance, Roles, TypedName};

/// When in a request's life a plugin acts. Data flows forward only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Beside requests: sources, extractors and the like.
    Other,
    /// While a request is queued.
    FlowControl,
    /// Around the decision.
    RequestControl,
    /// The decision.
    Scheduling,
}

impl Layer {
    /// Returns the layer of a plugin: the first of its roles counts, in the order of the layers.
    pub fn of(roles: &Roles) -> Self {
        if roles.producer.is_some()
            || roles.admitter.is_some()
            || roles.pre_request.is_some()
            || roles.response_header.is_some()
        {
            Layer::RequestControl
        } else if roles.profile_handler.is_some()
            || roles.filter.is_some()
            || roles.scorer.is_some()
            || roles.picker.is_some()
        {
            Layer::Scheduling
        } else {
            Layer::Other
        }
    }
}

/// A plugin as the graph sees it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name, and type as reported.
    pub id: TypedName,
    /// When it acts.
    pub layer: Layer,
    /// Whether it produces for requests, and so takes part in the order.
    pub data_producer: bool,
    /// What it produces and consumes.
    pub data: DataFlow,
}

impl Node {
    /// Returns the node of an instance that is configured as `name`.
    pub fn of(name: &str, instance: &Instance) -> Self {
        Node {
            id: TypedName { name: name.into(), plugin_type: instance.id.plugin_type.clone() },
            layer: Layer::of(&instance.roles),
            data_producer: instance.roles.producer.is_some(),
            data: instance.data.clone(),
        }
    }

    fn is_producer(&self) -> bool {
        self.data_producer || !self.data.produces.is_empty()
    }

    fn produces(&self, key: &DataKey) -> bool {
        self.data.produces.iter().any(|p| p.key == *key)
    }
}

/// What is wrong with the flow of data.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GraphFault {
    /// Nobody produces a required key, and no type is created for it.
    #[error(
        "{consumer} requires the data key {key}, which no configured plugin produces; configure a producer of it"
    )]
    NoDefaultProducer {
        /// The key.
        key: String,
        /// Who requires it.
        consumer: String,
    },
    /// The type that would be created does not exist.
    #[error("no plugin type {plugin_type}, the default producer of {key}, is registered")]
    NoFactory {
        /// The type.
        plugin_type: String,
        /// The key.
        key: String,
    },
    /// The type that would be created is not in this build.
    #[error(
        "plugin type {plugin_type}, the default producer of {key}, is not built yet; configure another producer"
    )]
    NotBuilt {
        /// The type.
        plugin_type: String,
        /// The key.
        key: String,
    },
    /// The default producer could not be created.
    #[error("the default producer {plugin_type} cannot be created without parameters: {why}")]
    CreationFailed {
        /// The type.
        plugin_type: String,
        /// What its factory says.
        why: String,
    },
    /// What was created produces nothing.
    #[error("the default producer {plugin_type} is not a producer")]
    NotAProducer {
        /// The type.
        plugin_type: String,
    },
    /// A producer and a consumer disagree.
    #[error("{producer} and {consumer} differ in the type of the data under {key}")]
    DataTypeMismatch {
        /// The key.
        key: String,
        /// Who writes it.
        producer: String,
        /// Who reads it.
        consumer: String,
    },
    /// A producer acts after its consumer.
    #[error("{producer} would have to run before {consumer}, which acts earlier in a request's life")]
    LayerOrder {
        /// Who writes.
        producer: String,
        /// Who reads.
        consumer: String,
    },
    /// Plugins need each other in a circle.
    #[error("these plugins need each other's data in a circle: {}", .plugins.join(", "))]
    Cycle {
        /// The plugins.
        plugins: Vec<String>,
    },
}

impl GraphFault {
    /// Returns its class.
    pub fn fault(&self) -> Fault {
        match self {
            GraphFault::NoDefaultProducer { .. } => Fault::NoDefaultProducer,
            GraphFault::NotBuilt { .. } => Fault::NotBuilt,
            GraphFault::NoFactory { .. }
            | GraphFault::CreationFailed { .. }
            | GraphFault::NotAProducer { .. } => Fault::DefaultProducerFailed,
            GraphFault::DataTypeMismatch { .. } => Fault::DataTypeMismatch,
            GraphFault::LayerOrder { .. } => Fault::LayerOrder,
            GraphFault::Cycle { .. } => Fault::Cycle,
        }
    }
}

/// Creates producers for keys that nobody produces.
pub trait DefaultProducers {
    /// Returns the type that is created for `key`.
    fn type_for(&self, key: &DataKey) -> Option<String>;

    /// Creates an instance of the type under the type's name, without parameters.
    fn create(&mut self, plugin_type: &str) -> Result<Node, NotCreated>;
}

/// Why a default producer was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// No such type.
    NoFactory,
    /// The type is not in this build.
    NotBuilt,
    /// Its factory refused.
    Failed(String),
}

/// Adds default producers to `nodes` until every required key is produced or nothing more can be added, and
/// returns what went wrong. `nodes` must hold every plugin: a plugin that bears a default producer's name stands
/// in for it, whatever it produces.
pub fn complete(nodes: &mut Vec<Node>, defaults: &mut impl DefaultProducers) -> Vec<GraphFault> {
    loop {
        let mut faults = Vec::new();
        let mut created = false;
        for (key, consumer) in missing(nodes) {
            match default_producer(&key, &consumer, nodes, defaults) {
                Ok(Some(node)) => {
                    nodes.push(node);
                    created = true;
                }
                Ok(None) => {}
                Err(fault) => faults.push(fault),
            }
        }
        if !created || !faults.is_empty() {
            return faults;
        }
    }
}

fn default_producer(
    key: &DataKey,
    consumer: &TypedName,
    nodes: &[Node],
    defaults: &mut impl DefaultProducers,
) -> Result<Option<Node>, GraphFault> {
    let key_text = key.to_string();
    let Some(plugin_type) = defaults.type_for(key) else {
        return Err(GraphFault::NoDefaultProducer { key: key_text, consumer: consumer.to_string() });
    };
    if nodes.iter().any(|n| *n.id.name == *plugin_type) {
        return Ok(None);
    }
    match defaults.create(&plugin_type) {
        Ok(node) if node.is_producer() => Ok(Some(node)),
        Ok(_) => Err(GraphFault::NotAProducer { plugin_type }),
        Err(NotCreated::NoFactory) => Err(GraphFault::NoFactory { plugin_type, key: key_text }),
        Err(NotCreated::NotBuilt) => Err(GraphFault::NotBuilt { plugin_type, key: key_text }),
        Err(NotCreated::Failed(why)) => Err(GraphFault::CreationFailed { plugin_type, why }),
    }
}

/// Returns each required key without a producer once, with the first plugin that requires it.
fn missing(nodes: &[Node]) -> Vec<(DataKey, TypedName)> {
    let mut found: Vec<(DataKey, TypedName)> = Vec::new();
    for node in nodes {
        for required in &node.data.requires {
            let key = &required.key;
            if !nodes.iter().any(|n| n.produces(key)) && !found.iter().any(|(k, _)| k == key) {
                found.push((key.clone(), node.id.clone()));
            }
        }
    }
    found
}

/// Returns each optional key without a producer, with the plugin that would use it.
pub fn unproduced_optional(nodes: &[Node]) -> Vec<(TypedName, DataKey)> {
    let optional = nodes.iter().flat_map(|n| n.data.optional.iter().map(move |o| (&n.id, &o.key)));
    optional
        .filter(|(_, key)| !nodes.iter().any(|n| n.produces(key)))
        .map(|(id, key)| (id.clone(), key.clone()))
        .collect()
}

/// Checks every pair of producer and consumer and returns the data producers, as indexes into `nodes`, in the
/// order in which they run.
///
/// A producer's level is 0 if no plugin requires its data, else one more than the highest level among those
/// that do. Higher levels run first. Inside a level, where the llm-d Router's order is random, producers keep the
/// order of `nodes`, except that one which may use another's data runs after it, unless both may.
pub fn order(nodes: &[Node]) -> Result<Vec<usize>, Vec<GraphFault>> {
    let mut faults = Vec::new();
    let mut edges: Vec<(usize, usize)> = Vec::new();
    for (p, producer) in nodes.iter().enumerate() {
        for (c, consumer) in nodes.iter().enumerate().filter(|(c, _)| *c != p) {
            let mut related = false;
            for required in &consumer.data.requires {
                let Some(produced) = producer.data.produces.iter().find(|k| k.key == required.key) else {
                    continue;
                };
                related = true;
                if produced.value_type != required.value_type {
                    faults.push(GraphFault::DataTypeMismatch {
                        key: required.key.to_string(),
                        producer: producer.id.to_string(),
                        consumer: consumer.id.to_string(),
                    });
                }
            }
            if related && producer.layer > consumer.layer {
                let (producer, consumer) = (producer.id.to_string(), consumer.id.to_string());
                faults.push(GraphFault::LayerOrder { producer, consumer });
            }
            if related {
                edges.push((c, p));
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let levels = levels(nodes, &edges).map_err(|fault| vec![fault])?;
    let mut producers: Vec<usize> = (0..nodes.len()).filter(|n| nodes[*n].data_producer).collect();
    producers.sort_by_key(|n| std::cmp::Reverse(levels[*n]));
    let same_level = producers.chunk_by(|a, b| levels[*a] == levels[*b]);
    Ok(same_level.flat_map(|level| optional_order(nodes, level)).collect())
}

/// Returns the level of each node over edges from consumer to producer.
fn levels(nodes: &[Node], edges: &[(usize, usize)]) -> Result<Vec<usize>, GraphFault> {
    let mut waiting = vec![0usize; nodes.len()];
    for (_, producer) in edges {
        waiting[*producer] += 1;
    }
    let mut levels = vec![0usize; nodes.len()];
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|n| waiting[*n] == 0).collect();
    let mut next = 0;
    while let Some(&consumer) = ready.get(next) {
        next += 1;
        for (_, producer) in edges.iter().filter(|(c, _)| *c == consumer) {
            levels[*producer] = levels[*producer].max(levels[consumer] + 1);
            waiting[*producer] -= 1;
            if waiting[*producer] == 0 {
                ready.push(*producer);
            }
        }
    }
    if ready.len() == nodes.len() {
        return Ok(levels);
    }
    let stuck = (0..nodes.len()).filter(|n| !ready.contains(n)).map(|n| nodes[n].id.to_string());
    Err(GraphFault::Cycle { plugins: stuck.collect() })
}

/// Returns `level` with each producer behind those of the level whose data it may use. What remains of a circle
/// keeps its order.
fn optional_order(nodes: &[Node], level: &[usize]) -> Vec<usize> {
    let uses =
        |a: usize, b: usize| a != b && nodes[a].data.optional.iter().any(|o| nodes[b].produces(&o.key));
    let mut rest = level.to_vec();
    let mut ordered = Vec::with_capacity(level.len());
    while !rest.is_empty() {
        let free = rest.iter().position(|a| !rest.iter().any(|b| uses(*a, *b))).unwrap_or(0);
        ordered.push(rest.remove(free));
    }
    ordered
}

#[cfg(test)]
mod tests;
