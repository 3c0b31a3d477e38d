//! `precise-prefix-cache-scorer`: a `prefix-cache-scorer` over a precise producer, its own where there is no other
//! (scheduling spec 5.17). Deprecated in favour of the two.

use super::prefix_cache_scorer;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};
use crate::producers::PrecisePrefixCacheProducer;

/// Name of the type.
pub const TYPE: &str = "precise-prefix-cache-scorer";

/// Builds an instance.
///
/// Where the configuration has a precise producer, this is a `prefix-cache-scorer` that reads it, and reports that
/// type; its own parameters are not looked at. Otherwise it has a producer of its own, under its own name.
///
/// # Errors
/// Several precise producers; parameters that the producer does not take; `tokenizersPoolConfig`, which needs the
/// deprecated tokenizer sidecar.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let instances = handle.instances();
    let producers: Vec<&Instance> =
        instances.iter().filter(|i| *i.id.plugin_type == *PrecisePrefixCacheProducer::TYPE).collect();
    match producers[..] {
        [] => {}
        [producer] => {
            return Ok(prefix_cache_scorer::reading(prefix_cache_scorer::TYPE, name, &producer.id.name));
        }
        _ => return Err(FactoryError::Other("multiple precise-prefix-cache-producer instances".to_owned())),
    }
    let producer = PrecisePrefixCacheProducer::build(name, parameters, handle)?;
    let (mut roles, mut data) = producer.roles_and_data();
    let scorer = prefix_cache_scorer::reading(TYPE, name, name);
    roles.scorer = scorer.roles.scorer;
    data.requires.splice(0..0, scorer.data.requires);
    Ok(Instance::new(TYPE, name, roles).with_data(data))
}
