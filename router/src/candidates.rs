//! The endpoints that one decision chooses from.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use crate::data_key::DataKey;
use crate::endpoint::Endpoint;

/// A candidate of one decision: an index into its [`Candidates`].
///
/// Inside a decision identity is the index, not the endpoint's ID (scheduling spec 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidate(pub u32);

impl Candidate {
    /// Returns the position in the candidate list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The candidates of one decision, with what the data producers found out for this request.
///
/// The endpoints are shared with the datastore, not copied. What a producer writes is a column, one value a
/// candidate, private to the request; a read looks at the column first, then at the endpoint's own attributes.
#[derive(Clone, Default)]
pub struct Candidates {
    endpoints: Rc<Vec<Rc<Endpoint>>>,
    columns: Vec<(DataKey, Rc<dyn Any>)>,
}

impl Candidates {
    /// Returns the candidates `endpoints`, in this order.
    pub fn new(endpoints: Rc<Vec<Rc<Endpoint>>>) -> Self {
        Candidates { endpoints, columns: Vec::new() }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// Returns the endpoint behind a candidate.
    ///
    /// # Panics
    /// When the candidate belongs to a longer list.
    pub fn endpoint(&self, candidate: Candidate) -> &Rc<Endpoint> {
        &self.endpoints[candidate.index()]
    }

    /// Returns all endpoints in order.
    pub fn endpoints(&self) -> &[Rc<Endpoint>] {
        &self.endpoints
    }

    /// Iterates over all candidates in order.
    pub fn all(&self) -> impl ExactSizeIterator<Item = Candidate> + use<> {
        (0..self.endpoints.len() as u32).map(Candidate)
    }

    /// Sets the column `key`: one value a candidate, in order; `None` = this candidate has no value.
    ///
    /// # Panics
    /// When the column is not as long as the list.
    pub fn put<T: Any>(&mut self, key: DataKey, column: Vec<Option<T>>) {
        assert_eq!(column.len(), self.len(), "column {key} must have one value a candidate");
        let column: Rc<dyn Any> = Rc::new(column);
        match self.columns.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = column,
            None => self.columns.push((key, column)),
        }
    }

    /// Returns a reader of the values under `key`; absent and wrongly typed values read as `None`.
    pub fn read<'a, T: Any>(&'a self, key: &'a DataKey) -> Reader<'a, T> {
        let column =
            self.columns.iter().find(|(k, _)| k == key).and_then(|(_, c)| c.downcast_ref::<Vec<Option<T>>>());
        Reader { candidates: self, key, column: column.map(Vec::as_slice) }
    }
}

impl fmt::Debug for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.endpoints.iter().map(|e| e.metadata.id.to_string())).finish()
    }
}

/// Reads one attribute of many candidates; the key is resolved once.
#[derive(Debug)]
pub struct Reader<'a, T> {
    candidates: &'a Candidates,
    key: &'a DataKey,
    column: Option<&'a [Option<T>]>,
}

impl<'a, T: Any> Reader<'a, T> {
    /// Returns the candidate's value.
    pub fn get(&self, candidate: Candidate) -> Option<&'a T> {
        match self.column.and_then(|column| column[candidate.index()].as_ref()) {
            Some(value) => Some(value),
            None => self.candidates.endpoints[candidate.index()].attributes.get(self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::{PrefixCacheMatchInfo, UncachedRequestTokens};

    #[test]
    fn a_column_stands_before_the_endpoints_own_attribute() {
        let key = DataKey::plain("k");
        let mut with_own = Endpoint::default();
        with_own.attributes.put(key.clone(), Rc::new(UncachedRequestTokens(1)));
        let mut candidates = Candidates::new(Rc::new(vec![Rc::new(with_own), Rc::new(Endpoint::default())]));
        assert_eq!(candidates.read(&key).get(Candidate(0)), Some(&UncachedRequestTokens(1)));
        candidates.put(key.clone(), vec![Some(UncachedRequestTokens(2)), None]);
        assert_eq!(candidates.read(&key).get(Candidate(0)), Some(&UncachedRequestTokens(2)));
        assert_eq!(candidates.read::<UncachedRequestTokens>(&key).get(Candidate(1)), None);
    }

    #[test]
    fn a_value_of_another_type_reads_as_absent() {
        let key = DataKey::plain("k");
        let mut candidates = Candidates::new(Rc::new(vec![Rc::new(Endpoint::default())]));
        candidates.put(key.clone(), vec![Some("text")]);
        assert_eq!(candidates.read::<PrefixCacheMatchInfo>(&key).get(Candidate(0)), None);
    }
}
