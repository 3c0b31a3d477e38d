use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::Instant;
use rustc_hash::FxHashMap;

use super::context::Context;

/// The contexts of requests by their ids; one that is not mentioned for a while is forgotten.
#[derive(Debug)]
pub(super) struct Contexts {
    /// `None` = for ever.
    ttl: Option<Duration>,
    by_id: FxHashMap<Rc<str>, Entry>,
    /// The ids in the order in which they were last mentioned.
    by_mention: BTreeMap<u64, (Instant, Rc<str>)>,
    mentions: u64,
}

#[derive(Debug)]
struct Entry {
    context: Rc<RefCell<Context>>,
    mention: u64,
}

impl Contexts {
    /// Returns an empty table; `ttl` = 0: nothing is forgotten. Unit: nanoseconds.
    pub(super) fn new(ttl: u64) -> Self {
        let ttl = Some(Duration::from_nanos(ttl)).filter(|ttl| !ttl.is_zero());
        Contexts { ttl, by_id: FxHashMap::default(), by_mention: BTreeMap::new(), mentions: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns a request's context; that counts as a mention.
    pub(super) fn get(&mut self, id: &str, now: Instant) -> Option<Rc<RefCell<Context>>> {
        let entry = self.by_id.get_mut(id)?;
        let (_, id) = self.by_mention.remove(&entry.mention).expect("each entry stands in both maps");
        self.mentions += 1;
        entry.mention = self.mentions;
        self.by_mention.insert(self.mentions, (now, id));
        Some(Rc::clone(&entry.context))
    }

    /// Sets a request's context.
    pub(super) fn set(&mut self, id: &str, context: Rc<RefCell<Context>>, now: Instant) {
        self.remove(id);
        self.mentions += 1;
        let id: Rc<str> = id.into();
        self.by_mention.insert(self.mentions, (now, Rc::clone(&id)));
        self.by_id.insert(id, Entry { context, mention: self.mentions });
    }

    /// Forgets a request.
    pub(super) fn remove(&mut self, id: &str) {
        if let Some(entry) = self.by_id.remove(id) {
            self.by_mention.remove(&entry.mention);
        }
    }

    /// Takes those out that were last mentioned too long before `now`.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<(Rc<str>, Rc<RefCell<Context>>)> {
        let Some(ttl) = self.ttl else { return Vec::new() };
        let mut expired = Vec::new();
        while let Some(oldest) = self.by_mention.first_entry() {
            if now - oldest.get().0 <= ttl {
                break;
            }
            let (_, id) = oldest.remove();
            if let Some(entry) = self.by_id.remove(&id) {
                expired.push((id, entry.context));
            }
        }
        expired
    }
}
