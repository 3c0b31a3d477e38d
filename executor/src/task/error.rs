use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// Why a task has no output: it was aborted or it panicked.
pub struct JoinError(Kind);

enum Kind {
    Aborted,
    // In a lock only to be `Sync`, as an error must be to travel in a box.
    Panicked { message: String, payload: Mutex<Box<dyn Any + Send>> },
}

impl JoinError {
    pub(crate) fn aborted() -> Self {
        JoinError(Kind::Aborted)
    }

    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        let message = message_of(&*payload).to_owned();
        JoinError(Kind::Panicked { message, payload: Mutex::new(payload) })
    }

    /// Returns whether the task was aborted.
    pub fn is_aborted(&self) -> bool {
        matches!(self.0, Kind::Aborted)
    }

    /// Returns whether the task panicked.
    pub fn is_panicked(&self) -> bool {
        matches!(self.0, Kind::Panicked { .. })
    }

    /// Goes on unwinding with the task's panic, or returns the error if it was aborted.
    pub fn resume_unwind(self) -> Self {
        match self.0 {
            Kind::Aborted => self,
            Kind::Panicked { payload, .. } => {
                std::panic::resume_unwind(payload.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Aborted => f.write_str("the task was aborted"),
            Kind::Panicked { message, .. } => write!(f, "the task panicked: {message}"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl std::error::Error for JoinError {}

/// The text of a panic's payload.
pub(crate) fn message_of(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "(a payload that is no text)"
    }
}

/// The panic of a task on tokio, logged when it is dropped without having been observed.
pub(crate) struct Panic {
    payload: Option<Box<dyn Any + Send>>,
    name: &'static str,
    spawned_at: &'static Location<'static>,
}

impl Panic {
    pub(crate) fn new(
        payload: Box<dyn Any + Send>,
        name: &'static str,
        spawned_at: &'static Location<'static>,
    ) -> Self {
        Panic { payload: Some(payload), name, spawned_at }
    }

    /// Hands the payload to whoever awaits the task.
    pub(crate) fn observe(mut self) -> JoinError {
        JoinError::panicked(self.payload.take().expect("a panic is observed once, by value"))
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        if let Some(payload) = self.payload.take() {
            tracing::error!(
                task = self.name,
                spawned_at = %self.spawned_at,
                panic = message_of(&*payload),
                "a task panicked and nobody awaited it"
            );
        }
    }
}
