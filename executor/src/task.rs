//! Tasks: handles to work that runs beside this task.

mod abort;
mod error;
mod join;

pub use abort::AbortHandle;
pub use error::JoinError;
pub(crate) use error::{Panic, message_of};
pub use join::JoinHandle;
