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
    values: IndexMap<String, V, FxBuildHasher>,
    last_access: Option<Instant>,
    /// Alive while the request's stream is, where one was bound.
    stream: Option<Weak<()>>,
}

impl<V> Default for Entry<V> {
    fn default() -> Self {
        Entry { values: IndexMap::default(), last_access: None, stream: None }
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
        entry.values.insert(key.to_owned(), value);
    }

    /// Returns the value of `key`. An unknown key of a known request counts as an access, too.
    pub fn read(&mut self, request: &str, key: &str, now: Instant) -> Option<&V> {
        let entry = self.requests.get_mut(request)?;
        entry.last_access = Some(now);
        entry.values.get(key)
    }

    /// Returns all values of a request with their keys, and counts as an access.
    pub fn values_mut(&mut self, request: &str, now: Instant) -> impl Iterator<Item = (&str, &mut V)> {
        self.requests.get_mut(request).into_iter().flat_map(move |entry| {
            entry.last_access = Some(now);
            entry.values.iter_mut().map(|(key, value)| (key.as_str(), value))
        })
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
        entry.values.into_iter().map(|(_, value)| value)
    }

    /// Forgets one value and returns it.
    pub fn delete_key(&mut self, request: &str, key: &str) -> Option<V> {
        self.requests.get_mut(request)?.values.shift_remove(key)
    }

    /// Forgets every request that was idle for more than five minutes and whose stream is gone, and returns the
    /// values; one whose stream lives counts as accessed.
    pub fn sweep(&mut self, now: Instant) -> Vec<V> {
        let mut evicted = Vec::new();
        self.requests.retain(|_, entry| {
            let idle = entry.last_access.is_some_and(|last| now - last > IDLE_LIMIT);
            if !idle {
                return true;
            }
            if entry.stream.as_ref().is_some_and(|stream| stream.strong_count() > 0) {
                entry.last_access = Some(now);
                return true;
            }
            evicted.extend(std::mem::take(&mut entry.values).into_values());
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
