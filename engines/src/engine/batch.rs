//! The work of one step.

use super::latency::StepBatch;
use super::request::{Request, RequestId, Slot};

/// Why a request is in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// It is admitted for the first time.
    New,
    /// It is admitted again after a preemption.
    Resumed,
    /// It ran before.
    Continued,
}

/// The share of one request in a step.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The request.
    pub request: RequestId,
    /// Why it is here.
    pub kind: RowKind,
    /// Tokens computed in this step.
    pub tokens: u32,
    /// Tokens computed before it; for an admitted request, those that the prefix cache had.
    pub computed: u32,
    /// The step samples a token of the request: nothing known is left to compute.
    pub samples: bool,
    pub(super) slot: Slot,
    pub(super) serial: u64,
    /// Blocks the request had before the step; 0 for an admitted one.
    pub(super) blocks_before: u32,
}

/// The work of one step, rows in the order of scheduling: running requests, then admitted ones.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) number: u64,
    pub(super) rows: Vec<Row>,
    pub(super) preempted: Vec<RequestId>,
    pub(super) work: StepBatch,
    /// Its rows are the running requests, and not listed.
    pub(super) fused: bool,
}

impl Batch {
    /// The number of the schedule that made it, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its rows; none of a fused step ([`Model::is_silent`](super::Model::is_silent)).
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The requests that were preempted to make it, in that order.
    #[must_use]
    pub fn preempted(&self) -> &[RequestId] {
        &self.preempted
    }

    /// The shape of the step, for a latency model.
    #[must_use]
    pub fn work(&self) -> &StepBatch {
        &self.work
    }

    /// Whether it computes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && !self.fused
    }

    pub(super) fn clear(&mut self, number: u64) {
        self.number = number;
        self.rows.clear();
        self.preempted.clear();
        self.work = StepBatch::default();
        self.fused = false;
    }
}

impl Row {
    /// Adds the row of `request` to the shape of a step; known outputs that are recomputed count as prompt.
    pub(super) fn add_to(&self, work: &mut StepBatch, request: &Request) {
        if self.tokens == 1 && self.computed >= request.prompt {
            work.add_decode(self.computed);
        } else {
            work.add_prefill(self.computed, self.tokens, request.known);
        }
    }
}
