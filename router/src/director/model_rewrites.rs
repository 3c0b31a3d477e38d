use std::rc::Rc;

use executor::Stream;

/// The rewrite rules of a pool, by the object that brought them (configuration spec 8.2).
#[derive(Clone, Debug, Default)]
pub struct ModelRewrites {
    /// Oldest object first; of equally old ones the one set last stands last.
    objects: Vec<Object>,
}

#[derive(Clone, Debug)]
struct Object {
    name: Rc<str>,
    created: i64,
    rules: Vec<Rc<RewriteRule>>,
}

/// One rule: which models it is for, and what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteRule {
    /// Models, exactly; a `None` matches nothing. No matches at all = a generic rule, for every model.
    pub matches: Vec<Option<String>>,
    /// Models to choose from.
    pub targets: Vec<RewriteTarget>,
}

/// A model that a rule may choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteTarget {
    /// Model name.
    pub model: String,
    /// Share among the targets that have one.
    pub weight: Option<i32>,
}

impl ModelRewrites {
    /// Adds the object `name`, created at `created` (Unix time, any unit, the same for all), or replaces it.
    pub fn set(&mut self, name: &str, created: i64, rules: Vec<RewriteRule>) {
        self.remove(name);
        let at = self.objects.partition_point(|object| object.created <= created);
        let rules = rules.into_iter().map(Rc::new).collect();
        self.objects.insert(at, Object { name: name.into(), created, rules });
    }

    /// Removes the object `name`.
    pub fn remove(&mut self, name: &str) {
        self.objects.retain(|object| &*object.name != name);
    }

    /// Returns the rule for `model` with the name of its object: an exact match before a generic rule, in each
    /// class the oldest object.
    pub fn rule(&self, model: &str) -> Option<(Rc<str>, Rc<RewriteRule>)> {
        let find = |wanted: &dyn Fn(&RewriteRule) -> bool| {
            let mut all = self.objects.iter().flat_map(|o| o.rules.iter().map(move |rule| (&o.name, rule)));
            all.find(|(_, rule)| wanted(rule)).map(|(name, rule)| (Rc::clone(name), Rc::clone(rule)))
        };
        find(&|rule| rule.matches.iter().any(|m| m.as_deref() == Some(model)))
            .or_else(|| find(&|rule| rule.matches.is_empty()))
    }
}

impl RewriteRule {
    /// Draws a target by weight, one draw a call: where any target has a weight those without are never drawn,
    /// where none has they are equally likely. `None` = the rule has no targets.
    pub fn draw(&self, stream: &mut Stream) -> Option<&str> {
        let weight = |target: &RewriteTarget| u64::try_from(target.weight.unwrap_or(0)).unwrap_or(0);
        let total: u64 = self.targets.iter().map(weight).sum();
        if total == 0 {
            return stream.pick(&self.targets).map(|target| target.model.as_str());
        }
        let mut left = stream.below(total);
        let drawn = self.targets.iter().find(|target| match left.checked_sub(weight(target)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        drawn.map(|target| target.model.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(matches: &[&str], target: &str) -> RewriteRule {
        RewriteRule {
            matches: matches.iter().map(|m| Some((*m).to_owned())).collect(),
            targets: vec![RewriteTarget { model: target.to_owned(), weight: None }],
        }
    }

    #[test]
    fn exact_before_generic_and_old_before_new() {
        let mut rewrites = ModelRewrites::default();
        rewrites.set("generic", 0, vec![rule(&[], "g")]);
        rewrites.set("young", 2000, vec![rule(&["m"], "young")]);
        rewrites.set("old", 1000, vec![rule(&["m"], "old")]);
        let target = |rewrites: &ModelRewrites, m| rewrites.rule(m).map(|(_, r)| r.targets[0].model.clone());
        assert_eq!(target(&rewrites, "m").as_deref(), Some("old"));
        assert_eq!(target(&rewrites, "other").as_deref(), Some("g"));
        rewrites.remove("old");
        rewrites.set("twin", 2000, vec![rule(&["m"], "twin")]);
        rewrites.set("young", 2000, vec![rule(&["m"], "edited")]);
        assert_eq!(target(&rewrites, "m").as_deref(), Some("twin"), "an edit loses the tie");
    }

    #[test]
    fn targets_without_a_weight_are_never_drawn_beside_one_that_has() {
        let targets = |weights: &[Option<i32>]| RewriteRule {
            matches: Vec::new(),
            targets: weights
                .iter()
                .enumerate()
                .map(|(i, w)| RewriteTarget { model: i.to_string(), weight: *w })
                .collect(),
        };
        let mut stream = Stream::new(1, "rewrite");
        let mut share = |weights: &[Option<i32>]| {
            let rule = targets(weights);
            (0..10_000).filter(|_| rule.draw(&mut stream) == Some("0")).count()
        };
        assert_eq!(share(&[None, Some(100)]), 0);
        assert!((6_800..7_200).contains(&share(&[Some(70), Some(30)])));
        assert!((4_800..5_200).contains(&share(&[None, None])));
        assert_eq!(targets(&[]).draw(&mut stream), None);
    }
}
