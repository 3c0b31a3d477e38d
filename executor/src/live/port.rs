//! Where inputs enter.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use super::queue::Queue;
use super::world::World;

/// Takes one kind of input, inside.
pub trait Port: 'static {
    /// What comes from outside.
    type Input: Send + 'static;

    /// Writes down what [`replay`](Self::replay) makes an equal input from; called only while recording, before
    /// [`take`](Self::take). What the record leaves out must be taken out of the input here, too.
    fn record(&mut self, input: &mut Self::Input, out: &mut Vec<u8>);

    /// Makes an input from its record.
    ///
    /// # Errors
    /// What is wrong with the record: the replay ends there.
    fn replay(&mut self, recorded: &[u8]) -> Result<Self::Input, String>;

    /// Takes the input. This is an event: it may use the runtime, but not wait.
    fn take(&mut self, input: Self::Input);
}

/// A port whose input's type is forgotten.
pub(crate) trait AnyPort {
    fn record(&self, input: &mut dyn Any, out: &mut Vec<u8>);
    fn replay(&self, recorded: &[u8]) -> Result<Box<dyn Any + Send>, String>;
    fn take(&self, input: Box<dyn Any + Send>);
}

impl<P: Port> AnyPort for RefCell<P> {
    fn record(&self, input: &mut dyn Any, out: &mut Vec<u8>) {
        self.borrow_mut().record(expect(input.downcast_mut()), out);
    }

    fn replay(&self, recorded: &[u8]) -> Result<Box<dyn Any + Send>, String> {
        Ok(Box::new(self.borrow_mut().replay(recorded)?))
    }

    fn take(&self, input: Box<dyn Any + Send>) {
        self.borrow_mut().take(*expect(input.downcast().ok()));
    }
}

fn expect<T>(input: Option<T>) -> T {
    input.expect("an inlet sends what its port takes")
}

/// What only this host can do, see [`Rt::live`](crate::Rt::live).
pub struct Intake(pub(crate) Rc<World>);

impl Intake {
    /// Opens a port. Ports are told apart by the order in which they are opened.
    pub fn open<P: Port>(&self, port: P) -> Inlet<P::Input> {
        let number = self.0.open(Rc::new(RefCell::new(port)));
        Inlet { port: number, queue: Arc::clone(self.0.queue()), input: PhantomData }
    }

    /// Journals a decision; in a replay, holds it against the recorded ones.
    pub fn decided(&self, body: &[u8]) {
        self.0.decided(body);
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Intake")
    }
}

/// Sends inputs to a [`Port`]. Cheap to clone, works on any thread.
pub struct Inlet<T> {
    port: u32,
    queue: Arc<Queue>,
    input: PhantomData<fn(T)>,
}

impl<T: Send + 'static> Inlet<T> {
    /// Sends an input; what one thread sends keeps its order.
    ///
    /// # Errors
    /// The input, when the run is over. In a replay inputs come from the journal alone: what is sent there is
    /// given back.
    pub fn send(&self, input: T) -> Result<(), T> {
        self.queue.push(self.port, input)
    }
}

impl<T> Clone for Inlet<T> {
    fn clone(&self) -> Self {
        Inlet { port: self.port, queue: Arc::clone(&self.queue), input: PhantomData }
    }
}

impl<T> fmt::Debug for Inlet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inlet").field("port", &self.port).finish_non_exhaustive()
    }
}
