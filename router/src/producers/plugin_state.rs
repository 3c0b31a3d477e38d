use std::rc::{Rc, Weak};
use std::time::Duration;

use executor::Instant;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// How long a request's state may lie untouched before the janitor looks at it.
const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// How often the janitor looks.
pub(crate) const JANITOR_PERIOD: Duration = Duration::from_secs(60);

/// What a plugin remembers between the hooks of a request (request-control spec 7): request id, then a key of the
/// plugin's own, to a value.
///
/// A value that [`delete`](Self::delete), [`delete_key`](Self::delete_key) or [`sweep`](Self::sweep) hands out is
/// the caller's to undo; each is handed out once.
#[derive(Debug)]
pub struct PluginState<V> {
    requests: IndexMap<String, Entry<V>, FxBuildHasher>,
}

#[derive(Debug)]
struct Entry<V> {
    /// `None` until something is written.
    values: Option<IndexMap<String, V, FxBuildHasher>>,
    last_access: Option<Instant>,
    /// Alive while the request's stream is, where one was bound.
    stream: Option<Weak<()>>,
}

impl<V> Default for Entry<V> {
    fn default() -> Self {
        Entry { values: None, last_access: None, stream: None }
    }
}

impl<V> Default for PluginState<V> {
    fn default() -> Self {
        PluginState { requests: IndexMap::default() }
    }
}

impl<V> PluginState<V> {
    /// Sets the value of `key`; an earlier one is dropped.
    pub fn write(&mut self, request: &str, key: &str, value: V, now: Instant) {
        let entry = self.entry(request);
        entry.last_access = Some(now);
        entry.values.get_or_insert_default().insert(key.to_owned(), value);
    }

    /// Returns the value of `key`. Counts as an access, also of an unknown key, where the request has values.
    pub fn read(&mut self, request: &str, key: &str, now: Instant) -> Option<&mut V> {
        let entry = self.requests.get_mut(request)?;
        let values = entry.values.as_mut()?;
        entry.last_access = Some(now);
        values.get_mut(key)
    }

    /// Notes an access.
    pub fn touch(&mut self, request: &str, now: Instant) {
        self.entry(request).last_access = Some(now);
    }

    /// Binds the request's state to its stream: it is not idle while the stream lives.
    pub fn bind(&mut self, request: &str, stream: &Rc<()>) {
        self.entry(request).stream = Some(Rc::downgrade(stream));
    }

    /// Forgets a request and returns its values.
    pub fn delete(&mut self, request: &str) -> impl Iterator<Item = V> + use<V> {
        let entry = self.requests.swap_remove(request).unwrap_or_default();
        entry.values.into_iter().flat_map(IndexMap::into_values)
    }

    /// Forgets one value and returns it.
    pub fn delete_key(&mut self, request: &str, key: &str) -> Option<V> {
        self.requests.get_mut(request)?.values.as_mut()?.shift_remove(key)
    }

    /// Forgets every request that was idle for more than five minutes and whose stream is gone, and returns the
    /// values; one whose stream lives counts as accessed.
    pub fn sweep(&mut self, now: Instant) -> Vec<V> {
        let mut evicted = Vec::new();
        self.requests.retain(|_, entry| {
            let is_live = entry.stream.as_ref().is_some_and(|stream| stream.strong_count() > 0);
            match entry.last_access {
                // Bound and never used: it goes with its stream.
                None => return is_live,
                Some(last) if now - last <= IDLE_LIMIT => return true,
                Some(_) if is_live => {
                    entry.last_access = Some(now);
                    return true;
                }
                Some(_) => {}
            }
            evicted.extend(entry.values.take().into_iter().flat_map(IndexMap::into_values));
            false
        });
        evicted
    }

    /// Returns when a request was last accessed.
    pub fn last_access(&self, request: &str) -> Option<Instant> {
        self.requests.get(request)?.last_access
    }

    fn entry(&mut self, request: &str) -> &mut Entry<V> {
        if !self.requests.contains_key(request) {
            self.requests.insert(request.to_owned(), Entry::default());
        }
        &mut self.requests[request]
    }
}

#[cfg(test)]
mod tests;
