//! The endpoints as flow control and the director see them: looked up every 50 ms (flow-control spec 14).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use serde_json::Value;

use crate::admission::EndpointList;
use crate::director::headers::{SUBSET, SUBSET_NAMESPACE};
use crate::request_control::Metadata;

/// Finds endpoints.
pub trait Locator {
    /// Returns the endpoints that a proxy's metadata allow.
    fn locate(&self, metadata: &Metadata) -> EndpointList;

    /// Returns the same endpoints as of now: those that are still there with their newest metrics.
    fn refresh(&self, endpoints: &EndpointList) -> EndpointList {
        Rc::clone(endpoints)
    }
}

/// A locator that looks up each subset once in a while. Who belongs to the list is up to 50 ms old; what is known of them
/// is new.
pub struct CachedLocator {
    rt: Rt,
    locator: Rc<dyn Locator>,
    ttl: Duration,
    whole_pool: RefCell<Option<Entry>>,
    subsets: RefCell<Subsets>,
}

#[derive(Default)]
struct Subsets {
    entries: BTreeMap<String, Entry>,
    /// When entries were last looked through for old ones.
    purged: Instant,
}

struct Entry {
    endpoints: EndpointList,
    expires: Instant,
}

/// How long an entry lives.
const TTL: Duration = Duration::from_millis(50);
/// Time between two looks for entries that have expired.
const PURGE: Duration = Duration::from_secs(60);
/// The key of all lookups without a list.
const WHOLE_POOL: &str = "__default__";
/// The key of an empty list.
const NOTHING: &str = "__explicit_empty__";

impl CachedLocator {
    /// Returns a cache in front of `locator`; a `ttl` of zero stands for the 50 ms.
    pub fn new(rt: Rt, locator: Rc<dyn Locator>, ttl: Duration) -> Self {
        let ttl = if ttl.is_zero() { TTL } else { ttl };
        CachedLocator { rt, locator, ttl, whole_pool: RefCell::default(), subsets: RefCell::default() }
    }

    /// Returns the whole pool.
    pub fn whole_pool(&self) -> EndpointList {
        self.through(&mut self.whole_pool.borrow_mut(), &Metadata::new())
    }

    /// Returns when the whole pool has to be looked up again.
    pub(super) fn expires(&self) -> Option<Instant> {
        self.whole_pool.borrow().as_ref().map(|entry| entry.expires)
    }

    fn through(&self, entry: &mut Option<Entry>, metadata: &Metadata) -> EndpointList {
        if let Some(known) = entry.as_mut().filter(|known| self.rt.now() < known.expires) {
            known.endpoints = self.locator.refresh(&known.endpoints);
            return Rc::clone(&known.endpoints);
        }
        let endpoints = self.locator.locate(metadata);
        *entry = Some(Entry { endpoints: Rc::clone(&endpoints), expires: self.rt.now() + self.ttl });
        endpoints
    }
}

impl Locator for CachedLocator {
    fn locate(&self, metadata: &Metadata) -> EndpointList {
        let key = key(metadata);
        if key == WHOLE_POOL {
            return self.through(&mut self.whole_pool.borrow_mut(), metadata);
        }
        let now = self.rt.now();
        let mut subsets = self.subsets.borrow_mut();
        if now - subsets.purged >= PURGE {
            subsets.entries.retain(|_, entry| now <= entry.expires);
            subsets.purged = now;
        }
        let mut entry = subsets.entries.remove(&*key);
        let endpoints = self.through(&mut entry, metadata);
        subsets.entries.extend(entry.map(|entry| (key.into_owned(), entry)));
        endpoints
    }
}

impl fmt::Debug for CachedLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedLocator").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

/// Returns what distinguishes one list from another. Lists that the llm-d Router confuses are confused here: one entry
/// that is no text asks for the whole pool, of several only the texts count.
fn key(metadata: &Metadata) -> Cow<'_, str> {
    let hint = metadata.get(SUBSET_NAMESPACE).and_then(|fields| fields.get(SUBSET));
    let Some(Value::Array(list)) = hint else { return WHOLE_POOL.into() };
    match list.as_slice() {
        [] => NOTHING.into(),
        [only] => only.as_str().unwrap_or(WHOLE_POOL).into(),
        many => {
            let mut texts: Vec<&str> = many.iter().filter_map(Value::as_str).collect();
            texts.sort_unstable();
            texts.join("|").into()
        }
    }
}
