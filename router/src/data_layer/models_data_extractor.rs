//! `models-data-extractor`: keeps the list of a server's models as an attribute (configuration spec 6.4).

use std::rc::Rc;

use executor::Instant;

use super::{ExtractError, Extractor, Payload, PayloadKind};
use crate::attributes::Models;
use crate::data_key::DataKey;
use crate::endpoint::Endpoint;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles, TypedKey};

/// The plugin type.
pub const TYPE: &str = "models-data-extractor";

/// Data type of the attribute.
const MODELS: &str = "/v1/models";

/// Keeps the list of a server's models as an attribute.
#[derive(Clone, Debug)]
pub struct ModelsDataExtractor {
    key: DataKey,
}

/// Builds an instance; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let key = DataKey::new(MODELS, TYPE);
    let extractor = Rc::new(ModelsDataExtractor { key: key.clone() });
    let mut instance = Instance::new(TYPE, name, Roles { extractor: Some(extractor), ..Roles::default() });
    instance.data.produces.push(TypedKey::of::<Models>(&key));
    Ok(instance)
}

impl Extractor for ModelsDataExtractor {
    fn payload(&self) -> PayloadKind {
        PayloadKind::Models
    }

    fn extract(&self, payload: &Payload, endpoint: &mut Endpoint, _: Instant) -> Result<(), ExtractError> {
        match payload.models()? {
            Some(models) => endpoint.attributes.put(self.key.clone(), Rc::new(Models(models.to_vec()))),
            None => endpoint.attributes.remove(&self.key),
        }
        Ok(())
    }
}
