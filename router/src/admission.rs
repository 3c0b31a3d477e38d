//! Whether a request may pass before it has candidates (request-control spec 4).

mod utilization_detector;

pub use utilization_detector::UtilizationDetector;

use std::rc::Rc;

use executor::Instant;

use crate::endpoint::Endpoint;
use crate::error::{ErrorCode, InferenceError};

/// Measures how full a pool is.
pub trait SaturationDetector {
    /// Returns the saturation of `endpoints`: 1.0 = full, more = oversubscribed. Not clamped, may be NaN.
    fn saturation(&self, endpoints: &[Rc<Endpoint>], now: Instant) -> f64;
}

/// Admission without flow control: only sheddable requests (negative priority) can be refused, and only while
/// the pool is full (request-control spec 4.1).
pub struct LegacyAdmission {
    detector: Rc<dyn SaturationDetector>,
}

impl LegacyAdmission {
    /// Returns the admission that asks `detector`.
    pub fn new(detector: Rc<dyn SaturationDetector>) -> Self {
        LegacyAdmission { detector }
    }

    /// Lets a request of `priority` pass or not. `candidates` is called for sheddable requests alone.
    ///
    /// # Errors
    /// [`ErrorCode::ResourceExhausted`] for a sheddable request on a full pool.
    pub fn admit(
        &self,
        priority: i64,
        now: Instant,
        candidates: impl FnOnce() -> Rc<Vec<Rc<Endpoint>>>,
    ) -> Result<(), InferenceError> {
        // A saturation that is no number is not a full pool.
        let full = || self.detector.saturation(&candidates(), now) >= 1.0;
        if priority < 0 && full() {
            let message = "system saturated, sheddable request dropped";
            return Err(InferenceError::new(ErrorCode::ResourceExhausted, message));
        }
        Ok(())
    }
}

impl std::fmt::Debug for LegacyAdmission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LegacyAdmission")
    }
}
