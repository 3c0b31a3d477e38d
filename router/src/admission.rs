//! Whether a request may pass before it has candidates (request-control spec 4).

pub mod concurrency_detector;
pub mod utilization_detector;

use std::rc::Rc;

use executor::{Instant, WallTime};
use futures::future::LocalBoxFuture;

use crate::endpoint::Endpoint;
use crate::error::{ErrorCode, InferenceError};
use crate::plugin::{Factory, ParameterError};
use crate::request::InferenceRequest;

/// The saturation detector types that are built, each with its factory.
pub const TYPES: &[(&str, Factory)] = &[
    (concurrency_detector::TYPE, concurrency_detector::factory),
    (utilization_detector::TYPE, utilization_detector::factory),
];

/// A list of endpoints, shared.
pub type EndpointList = Rc<Vec<Rc<Endpoint>>>;

/// What admission needs to know of a request beside itself.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// Now.
    pub now: Instant,
    /// When the request's headers came.
    pub received: WallTime,
    /// Until when its client waits, where that is known.
    pub deadline: Option<Instant>,
    /// Model as the client named it.
    pub incoming_model: &'a str,
    /// Finds the endpoints that the request may go to.
    pub candidates: &'a dyn Fn() -> EndpointList,
}

/// Whether a request may go on: at once, or after waiting.
pub enum Admitted<'a> {
    /// Known.
    Ready(Result<(), InferenceError>),
    /// To be waited for. Dropping the future is a client that went away.
    Pending(LocalBoxFuture<'a, Result<(), InferenceError>>),
}

/// Lets requests pass before they have candidates.
pub trait Admission {
    /// Lets `request` pass or not; may leave attributes on it.
    fn admit<'a>(&'a self, request: &'a mut InferenceRequest, asking: Asking<'a>) -> Admitted<'a>;
}

/// Measures how full a pool is.
pub trait SaturationDetector {
    /// Returns the type of the detector.
    fn plugin_type(&self) -> &'static str;

    /// Returns how much one more request adds to the saturation of `endpoints`, and up to when the detector has seen
    /// at `now` those that were let go; `None` for one that sees them at once, or nothing at all.
    fn unseen(&self, endpoints: &[Rc<Endpoint>], now: Instant) -> Option<(f64, Instant)> {
        let _ = (endpoints, now);
        None
    }

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

    /// Lets a request of `priority` pass or refuses it. `candidates` is called for sheddable requests alone.
    ///
    /// # Errors
    /// [`ErrorCode::ResourceExhausted`] for a sheddable request on a full pool.
    pub fn decide(
        &self,
        priority: i64,
        now: Instant,
        candidates: impl FnOnce() -> EndpointList,
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

impl Admission for LegacyAdmission {
    fn admit<'a>(&'a self, request: &'a mut InferenceRequest, asking: Asking<'a>) -> Admitted<'a> {
        Admitted::Ready(self.decide(request.priority, asking.now, asking.candidates))
    }
}

impl std::fmt::Debug for Asking<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").field("incoming_model", &self.incoming_model).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Admitted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Admitted::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Admitted::Pending(_) => f.write_str("Pending"),
        }
    }
}

impl std::fmt::Debug for LegacyAdmission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LegacyAdmission")
    }
}

/// Returns what is wrong with a headroom.
fn wrong_headroom(headroom: f64) -> Option<String> {
    (headroom < 0.0).then(|| format!("headroom must be a non-negative value, got {headroom}"))
}

/// Says of a headroom that it more than doubles what a full endpoint may hold.
fn warn_of_headroom(plugin: &str, headroom: f64) {
    if headroom > 1.0 {
        tracing::warn!(plugin, headroom, "a headroom above 1.0 more than doubles what an endpoint may hold");
    }
}

/// Returns the error that says everything that is wrong with a detector, if anything is.
fn all_wrong(detector: &str, wrong: &[String]) -> Result<(), ParameterError> {
    if wrong.is_empty() {
        return Ok(());
    }
    Err(ParameterError::new(format!("invalid {detector} configuration: {}", wrong.join("\n"))))
}
