//! Values that belong to the runtime: one a type.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// The values of one runtime, by type.
#[derive(Clone, Default)]
pub(crate) struct Locals(FxHashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Locals {
    pub(crate) fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(crate) fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let value = Arc::clone(self.0.get(&TypeId::of::<T>())?);
        Some(value.downcast().expect("values are stored under their own type"))
    }

    pub(crate) fn get_or_default<T: Any + Send + Sync + Default>(&mut self) -> Arc<T> {
        if self.get::<T>().is_none() {
            self.insert(T::default());
        }
        self.get().expect("it was inserted above")
    }
}

impl fmt::Debug for Locals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Locals({})", self.0.len())
    }
}
