//! Bands, and the flows in them (flow-control spec 7).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use executor::Instant;

use super::fairness::BandFairness;
use super::flows::{FlowKey, Flows};
use super::lease::Lease;
use super::queue::{Queued, Ties};
use super::settings::{BandSettings, RegistrySettings};

/// All bands, the highest priority first.
pub(super) struct Registry {
    settings: RegistrySettings,
    ties: Ties,
    /// Priorities of the bands, in the same order.
    priorities: Vec<i64>,
    bands: Vec<Band>,
    /// Priorities that are never removed.
    initial: BTreeSet<i64>,
    /// Priorities that the control plane asks for.
    desired: BTreeSet<i64>,
}

/// Flows of one band from which on idle ones go at once: any client can invent ids, and each takes some kilobytes. The
/// llm-d Router keeps them all for five minutes.
const MANY_FLOWS: usize = 10_000;

/// One band.
pub(super) struct Band {
    pub(super) settings: BandSettings,
    pub(super) flows: Flows,
    pub(super) fairness: Box<dyn BandFairness>,
    /// By the number of the flow.
    leases: Vec<Lease>,
    /// Flows at which idle ones go at once.
    many: usize,
    /// Used by flows; `None` where the band was looked at as idle for long and stayed all the same.
    lease: Option<Lease>,
}

/// What was collected: flows that are gone, with the items that were left in them.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) flows: Vec<(i64, std::rc::Rc<str>, FlowKey)>,
    pub(super) items: Vec<Queued>,
}

impl Band {
    fn new(settings: BandSettings, ties: Ties) -> Self {
        let fairness = settings.fairness.plugin.for_band();
        Band {
            settings,
            flows: Flows::new(ties),
            fairness,
            leases: Vec::new(),
            many: MANY_FLOWS,
            lease: None,
        }
    }

    /// Returns the flow `id`, made where it is not there, with one more user.
    pub(super) fn acquire(&mut self, id: &str) -> FlowKey {
        let count = self.flows.count();
        let flow = self.flows.provide(id, &self.settings.ordering.plugin);
        if self.flows.count() > count {
            self.lease.get_or_insert_default().pin();
            if self.leases.len() <= flow.0 {
                self.leases.resize(flow.0 + 1, Lease::default());
            }
            self.leases[flow.0] = Lease::default();
        }
        self.leases[flow.0].pin();
        flow
    }

    /// Gives a flow back that was acquired at `since`: from then on it counts as idle (flow-control spec 7.3).
    pub(super) fn release(&mut self, flow: FlowKey, since: Instant) {
        self.leases[flow.0].unpin(since);
    }

    /// Removes the flows that are idle for `timeout`.
    fn collect(&mut self, timeout: Duration, now: Instant, collected: &mut Collected) {
        let leases = &mut self.leases;
        let over: Vec<FlowKey> = self
            .flows
            .iter()
            .map(|(_, flow)| flow)
            .filter(|flow| leases[flow.0].is_over(timeout, now))
            .collect();
        for flow in over {
            collected.flows.push((self.settings.priority, self.flows.id(flow).clone(), flow));
            collected.items.append(&mut self.flows.remove_flow(flow));
            self.lease.get_or_insert_default().unpin(now);
        }
    }

    fn is_unused(&self) -> bool {
        self.lease.is_none_or(|lease| lease.is_idle())
    }
}

impl Registry {
    /// Returns the bands that are always there.
    pub(super) fn new(settings: RegistrySettings, ties: Ties) -> Self {
        let bands: Vec<Band> = settings.bands.iter().map(|band| Band::new(band.clone(), ties)).collect();
        let priorities: Vec<i64> = bands.iter().map(|band| band.settings.priority).collect();
        let initial = priorities.iter().copied().collect();
        Registry { settings, ties, priorities, bands, initial, desired: BTreeSet::new() }
    }

    /// Returns the priorities of all bands, the highest first.
    pub(super) fn priorities(&self) -> &[i64] {
        &self.priorities
    }

    pub(super) fn bands(&self) -> &[Band] {
        &self.bands
    }

    pub(super) fn band_mut(&mut self, at: usize) -> &mut Band {
        &mut self.bands[at]
    }

    /// Returns where the band of `priority` is.
    pub(super) fn find(&self, priority: i64) -> Option<usize> {
        self.priorities.binary_search_by_key(&Reverse(priority), |other| Reverse(*other)).ok()
    }

    /// Returns how many items wait in all bands, and their bytes.
    pub(super) fn queued(&self) -> (usize, u64) {
        self.bands
            .iter()
            .fold((0, 0), |(len, bytes), band| (len + band.flows.len(), bytes + band.flows.bytes()))
    }

    /// Returns whether an item of `bytes` may join a band (flow-control spec 6.4).
    pub(super) fn has_room(&self, band: usize, bytes: u64) -> bool {
        let fits = |limit: u64, used: u64, more: u64| limit == 0 || used.saturating_add(more) <= limit;
        let RegistrySettings { max_bytes, max_requests, .. } = self.settings;
        // Without limits on the whole there is nothing to add up.
        let (len, total) = if max_bytes == 0 && max_requests == 0 { (0, 0) } else { self.queued() };
        let Band { settings, flows, .. } = &self.bands[band];
        fits(max_bytes, total, bytes)
            && fits(max_requests, len as u64, 1)
            && fits(settings.max_bytes, flows.bytes(), bytes)
            && fits(settings.max_requests, flows.len() as u64, 1)
    }

    /// Adds the band of `priority` from its template, if it is not there.
    pub(super) fn provide(&mut self, priority: i64) {
        let Err(at) = self.priorities.binary_search_by_key(&Reverse(priority), |other| Reverse(*other))
        else {
            return;
        };
        let template = match &self.settings.default_negative_band {
            Some(negative) if priority < 0 => negative,
            _ => &self.settings.default_band,
        };
        let mut band = Band::new(BandSettings { priority, ..template.clone() }, self.ties);
        band.lease = Some(Lease::default());
        self.priorities.insert(at, priority);
        self.bands.insert(at, band);
    }

    /// Takes the priorities that the control plane asks for, in place of those before.
    pub(super) fn set_desired(&mut self, priorities: impl IntoIterator<Item = i64>) {
        self.desired = priorities.into_iter().collect();
        for priority in self.desired.clone() {
            self.provide(priority);
        }
        let unused = |band: &Band| band.is_unused();
        self.remove_bands(unused);
    }

    /// Removes the idle flows of a band that has very many, so that their number stays within twice that of the flows in
    /// use, or [`MANY_FLOWS`].
    pub(super) fn make_room(&mut self, band: usize, now: Instant) -> Option<Collected> {
        let band = &mut self.bands[band];
        if band.flows.count() < band.many {
            return None;
        }
        let mut collected = Collected::default();
        band.collect(Duration::ZERO, now, &mut collected);
        band.many = MANY_FLOWS.max(2 * band.flows.count());
        Some(collected)
    }

    /// Removes what has been idle for too long.
    pub(super) fn collect(&mut self, now: Instant) -> Collected {
        let mut collected = Collected::default();
        for band in &mut self.bands {
            band.collect(self.settings.flow_gc_timeout, now, &mut collected);
        }
        let timeout = self.settings.priority_band_gc_timeout;
        let mut over = BTreeSet::new();
        for band in &mut self.bands {
            if band.lease.as_mut().is_some_and(|lease| lease.is_over(timeout, now)) {
                band.lease = None;
                over.insert(band.settings.priority);
            }
        }
        self.remove_bands(|band| over.contains(&band.settings.priority));
        collected
    }

    /// Removes the bands that `gone` picks and nobody protects.
    fn remove_bands(&mut self, gone: impl Fn(&Band) -> bool) {
        let (initial, desired) = (&self.initial, &self.desired);
        let protected = |priority: i64| initial.contains(&priority) || desired.contains(&priority);
        self.bands.retain(|band| protected(band.settings.priority) || !gone(band));
        self.priorities.clear();
        self.priorities.extend(self.bands.iter().map(|band| band.settings.priority));
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bands = self.bands.iter().map(|band| (band.settings.priority, &band.flows));
        f.debug_map().entries(bands).finish()
    }
}
