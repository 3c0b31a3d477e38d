//! The servers before the core: what reads sockets, parses bodies and forwards.
//!
//! A request's way: [`Proxy::handle`] (any thread) reads and parses the body → `CoreHandle` (one message to the
//! core's thread) → [`Director`](crate::director::Director) → back with a route → the proxy sends the request
//! through [`Rt::http`](executor::Rt::http) and passes the response on, telling the core of its head, first
//! chunk and end.

mod core;
mod error_response;
pub mod ext_proc;
mod frontend;
mod headers;
mod idle_limit;
mod pool;
mod proxy;
mod request_body;
mod request_head;
mod request_metrics;
mod response_body;
mod zmq;

pub use self::core::{Core, CoreHandle, Decided};
pub use frontend::Frontend;
pub use proxy::{Proxy, ProxyOptions};
pub use zmq::subscribe_to_kv_events;
