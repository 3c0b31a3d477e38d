//! The simulated world outside: services at endpoints, and what only a simulation may do.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use futures::future::LocalBoxFuture;
use http::{Request, Response};
use rustc_hash::FxHashMap;

use super::core::{Id, Spawn};
use super::net;
use super::pipe::Pipe;
use super::task::TaskRef;
use crate::http::{Body, Endpoint, SendError};
use crate::live::Sent;
use crate::{Class, JoinHandle};

pub(super) type Answer = Result<Response<Body>, SendError>;
pub(super) type Service = Rc<dyn Fn(Request<Body>) -> LocalBoxFuture<'static, Answer>>;

/// The services that listen, by endpoint. Looked up, never iterated.
#[derive(Default)]
pub(super) struct Services(FxHashMap<Endpoint, Service>);

impl Services {
    pub(super) fn get(&self, endpoint: &Endpoint) -> Option<Service> {
        self.0.get(endpoint).map(Rc::clone)
    }
}

/// What the simulated world can do and hosted code cannot, see [`Rt::simulation`](crate::Rt::simulation).
#[derive(Clone, Copy)]
pub struct Simulation(Id);

impl Simulation {
    pub(crate) fn new(id: Id) -> Self {
        Simulation(id)
    }

    /// Answers requests to `endpoint` with `service`, until [`close`](Self::close).
    ///
    /// Each exchange is a task of its own of [`Class::Transport`] that does not keep the run alive; it is
    /// aborted when the client drops the exchange before the answer. After the answer the client's going shows
    /// in the body: its producer finds the channel closed.
    ///
    /// # Errors
    /// When something listens there already.
    pub fn listen<S, F>(&self, endpoint: Endpoint, service: S) -> Result<(), EndpointInUse>
    where
        S: Fn(Request<Body>) -> F + 'static,
        F: Future<Output = Answer> + 'static,
    {
        let service: Service = Rc::new(move |request| Box::pin(service(request)));
        self.0.with(|core| {
            let services = &mut core.services.borrow_mut().0;
            if services.contains_key(&endpoint) {
                return Err(EndpointInUse(endpoint));
            }
            services.insert(endpoint, service);
            Ok(())
        })
    }

    /// Stops listening: further requests are refused, those under way go on. Returns whether anything listened.
    pub fn close(&self, endpoint: &Endpoint) -> bool {
        // Dropped after the table is free again.
        let service = self.0.with(|core| {
            let service = core.services.borrow_mut().0.remove(endpoint);
            net::forget(core, endpoint);
            service
        });
        service.is_some()
    }

    /// Returns the two ends of a connection on which nothing takes time and nothing goes wrong.
    pub fn pipe(&self) -> (Pipe, Pipe) {
        self.0.with(|core| core.roads.borrow_mut().pipe(core.id()))
    }

    /// Starts a task whose polls are events of `class`: an engine, an observer.
    #[track_caller]
    pub fn spawn_in<F>(&self, class: Class, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let how = Spawn { name, place: Location::caller(), class, daemon: false };
        JoinHandle::sim(TaskRef::new(self.0.with(|core| core.spawn(how, future))))
    }

    /// As [`spawn_in`](Self::spawn_in), but does not keep the run alive.
    #[track_caller]
    pub fn daemon_in<F>(&self, class: Class, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let how = Spawn { name, place: Location::caller(), class, daemon: true };
        JoinHandle::sim(TaskRef::new(self.0.with(|core| core.spawn(how, future))))
    }

    /// Mixes `value` into the run's digest: a decision, a draw, whatever two equal runs must agree in.
    pub fn note(&self, value: u64) {
        self.0.with(|core| core.note(value));
    }

    /// Gives the run up: it ends behind this event with [`Outcome::Starvation`](crate::Outcome::Starvation), and the finding
    /// says `why`, which tasks are left and what each waits for.
    ///
    /// For who knows that a run does not get on although its tasks have turns: clients that poll, timers that repeat.
    pub fn give_up(&self, why: impl Into<String>) {
        self.0.with(|core| core.give_up(why.into()));
    }

    /// Returns how many events the run has executed.
    pub fn events(&self) -> u64 {
        self.0.with(|core| core.events())
    }
}

/// Sends `request` to the service at `to`, the way the run's network has it.
pub(crate) async fn send(
    id: Id,
    to: Endpoint,
    request: Request<Body>,
    place: &'static Location<'static>,
) -> Answer {
    if id.with(|core| core.roads.borrow().exist()) {
        // In a box, so that a direct call does not carry its room.
        return Box::pin(net::send(id, to, request, place)).await;
    }
    let exchange = match begin(id, &to, request, place) {
        Begun::Outside(sent) => return sent.answer().await,
        Begun::Inside(exchange) => exchange,
        Begun::Refused => return Err(SendError::refused().at(&to)),
    };
    match AbortOnDrop(exchange).await_answer().await {
        Ok(answer) => answer.map_err(|error| error.at(&to)),
        // A server that dies under a request closes its connection.
        Err(()) => Err(SendError::closed().at(&to)),
    }
}

/// Where an exchange takes place.
enum Begun {
    /// Over the sockets of a live run.
    Outside(Sent),
    /// In the simulation.
    Inside(JoinHandle<Answer>),
    /// Nothing listens.
    Refused,
}

fn begin(id: Id, to: &Endpoint, request: Request<Body>, place: &'static Location<'static>) -> Begun {
    let exchanges = id.with(|core| core.world().map(|world| Rc::clone(world.exchanges())));
    match exchanges {
        Some(exchanges) => Begun::Outside(exchanges.borrow_mut().send(id, to.clone(), request, place)),
        None => start(id, to, request, place).map_or(Begun::Refused, Begun::Inside),
    }
}

fn start(
    id: Id,
    to: &Endpoint,
    request: Request<Body>,
    place: &'static Location<'static>,
) -> Option<JoinHandle<Answer>> {
    id.with(|core| {
        let service = core.services.borrow().get(to)?;
        let how = Spawn { name: "exchange", place, class: Class::Transport, daemon: true };
        // The service is called in the task: the request arrives as an event.
        let word = core.spawn(how, async move { service(request).await });
        Some(JoinHandle::sim(TaskRef::new(word)))
    })
}

struct AbortOnDrop(JoinHandle<Answer>);

impl AbortOnDrop {
    async fn await_answer(mut self) -> Result<Answer, ()> {
        (&mut self.0).await.map_err(drop)
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The error of listening where something listens already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointInUse(pub Endpoint);

impl fmt::Display for EndpointInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "something listens at {} already", self.0)
    }
}

impl std::error::Error for EndpointInUse {}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Simulation")
    }
}
