//! Who sends the requests of a synthetic workload.

use std::collections::BTreeSet;
use std::rc::Rc;

use executor::Stream;

use crate::InputError;
use crate::input_error::number;

/// More tenants are refused: each is a line of the screen.
const MAX_TENANTS: usize = 1000;

/// A sender of requests: a flow of flow control, with a priority.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its name, which its requests carry as their fairness id.
    pub name: String,
    /// Its part of the requests, in proportion to those of the others.
    pub share: f64,
    /// Priority of its requests; higher goes first.
    pub priority: i32,
}

/// The tenants of a workload, each drawn in proportion to its share.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants(Vec<Rc<Tenant>>);

impl Tenants {
    /// Returns the tenants.
    ///
    /// # Errors
    /// None of them or more than a thousand, a name that is empty, no text for a header or given twice, and a share that is
    /// not above zero; the error names the field.
    pub fn new(tenants: Vec<Tenant>) -> Result<Self, InputError> {
        if !(1..=MAX_TENANTS).contains(&tenants.len()) {
            let problem = format!("{} tenants", tenants.len());
            return Err(InputError::new(problem).accepted(format!("1 to {MAX_TENANTS} tenants")));
        }
        let mut names = BTreeSet::new();
        for (index, Tenant { name, share, .. }) in tenants.iter().enumerate() {
            let at = |key: &str| format!("[{index}].{key}");
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_graphic()) {
                let error = InputError::new(format!("{name:?} is no name")).field(at("name"));
                return Err(error.accepted("visible ASCII characters, without blanks"));
            }
            if !names.insert(name) {
                let error = InputError::new(format!("{name:?} is there twice")).field(at("name"));
                return Err(error.accepted("a name of its own for each tenant"));
            }
            if !(*share > 0.0 && *share <= 1e9) {
                let error = InputError::new(format!("{} is no share", number(*share))).field(at("share"));
                return Err(error.accepted("above 0 and at most 1000000000"));
            }
        }
        Ok(Tenants(tenants.into_iter().map(Rc::new).collect()))
    }

    /// Returns the tenants in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Rc<Tenant>> {
        self.0.iter()
    }

    pub(super) fn draws(&self, stream: Stream) -> Draws {
        let cumulative = self.0.iter().scan(0.0, |sum, tenant| {
            *sum += tenant.share;
            Some(*sum)
        });
        Draws { stream, cumulative: cumulative.collect(), tenants: self.0.clone() }
    }
}

/// Draws a tenant for each request.
#[derive(Debug)]
pub(super) struct Draws {
    stream: Stream,
    /// The shares, summed from the first.
    cumulative: Vec<f64>,
    tenants: Vec<Rc<Tenant>>,
}

impl Draws {
    pub(super) fn draw(&mut self) -> Rc<Tenant> {
        let sum = self.cumulative.last().copied().unwrap_or_default();
        let point = self.stream.unit() * sum;
        let place = self.cumulative.partition_point(|below| *below <= point);
        Rc::clone(&self.tenants[place.min(self.tenants.len() - 1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str, share: f64) -> Tenant {
        Tenant { name: name.to_owned(), share, priority: 0 }
    }

    #[test]
    fn tenants_are_drawn_by_their_shares() {
        let tenants = Tenants::new(vec![tenant("a", 6.0), tenant("b", 3.0), tenant("c", 1.0)]).unwrap();
        let mut draws = tenants.draws(Stream::new(1, "workload.tenant"));
        let mut counts = [0_u32; 3];
        for _ in 0..10_000 {
            counts[draws.draw().name.as_bytes()[0] as usize - usize::from(b'a')] += 1;
        }
        for (count, share) in counts.into_iter().zip([6000_u32, 3000, 1000]) {
            // Four standard deviations.
            assert!(count.abs_diff(share) < 200, "{counts:?}");
        }
    }

    #[test]
    fn what_is_no_tenant_is_refused_with_its_place() {
        for (tenants, said) in [
            (vec![], "0 tenants; accepted: 1 to 1000"),
            (vec![tenant("", 1.0)], "[0].name: \"\" is no name"),
            (vec![tenant("a b", 1.0)], "[0].name: \"a b\" is no name"),
            (vec![tenant("a", 1.0), tenant("a", 1.0)], "[1].name: \"a\" is there twice"),
            (vec![tenant("a", 0.0)], "[0].share: 0 is no share; accepted: above 0"),
            (vec![tenant("a", f64::NAN)], "[0].share: NaN is no share"),
            (vec![tenant("a", f64::INFINITY)], "[0].share: "),
        ] {
            let error = Tenants::new(tenants).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
