use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Most different texts that a label shows: clients choose them (configuration spec 11.5).
pub const MOST: usize = 1000;

/// What the texts beyond are shown as.
pub const OTHER: &str = "other";

/// A set of texts that grows up to [`MOST`]. Cheap to clone: all clones are one set.
#[derive(Clone, Debug, Default)]
pub struct Bounded(Rc<RefCell<BTreeSet<String>>>);

impl Bounded {
    /// Returns the text where it is admitted, as the first ones are for ever; else [`OTHER`]. Empty stays empty.
    pub fn admit<'a>(&self, text: &'a str) -> &'a str {
        let mut known = self.0.borrow_mut();
        if text.is_empty() || known.contains(text) {
            return text;
        }
        if known.len() >= MOST {
            return OTHER;
        }
        known.insert(text.to_owned());
        text
    }
}
