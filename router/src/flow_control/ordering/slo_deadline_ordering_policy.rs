//! `slo-deadline-ordering-policy`: earliest promise of a first token first (flow-control spec 9.3).

use super::{Arrival, FAR, OrderKey, OrderingPolicy};
use crate::headers::Headers;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type.
pub const TYPE: &str = "slo-deadline-ordering-policy";

/// The header that promises, and its older name. Unit: milliseconds.
const PROMISE: [&str; 2] = ["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"];
const NANOS_A_MS: i64 = 1_000_000;

/// Builds an instance; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(super::instance(name, SloDeadline))
}

struct SloDeadline;

impl OrderingPolicy for SloDeadline {
    fn plugin_type(&self) -> &'static str {
        TYPE
    }

    /// Deadline counted from when the headers came, then that moment. A promise orders and never expires.
    fn key(&self, item: &Arrival<'_>) -> OrderKey {
        let received = item.received.unix_nanos();
        let promised = item.headers.and_then(promised_nanos);
        OrderKey(promised.map_or(FAR, |promised| received.saturating_add(promised)), received)
    }
}

/// Returns the promise; `None` where there is none that is a number of 64-bit nanoseconds.
fn promised_nanos(headers: &Headers) -> Option<u64> {
    let ms: i64 = headers.first_present(&PROMISE)?.trim().parse().ok()?;
    u64::try_from(ms.checked_mul(NANOS_A_MS)?).ok()
}
