/// The class of an event: what goes first among events of one instant.
///
/// Under the simulation the order of events is (time, class, sequence). On tokio classes mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// What happens in the simulated world by itself: the end of an engine's step.
    Engine = 0,
    /// What a network delivers.
    Transport = 1,
    /// The poll of a task that was woken: everything that has no other class.
    Task = 2,
    /// Periodic work and observers: they see an instant after all else has happened in it.
    Ticker = 3,
}
