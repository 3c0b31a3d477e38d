//! Envoy's external processing protocol: a proxy hands each request and its response over, message by message, and
//! does what it is answered (request-control spec 2.1, configuration spec 9).
//!
//! [`Exchange`] is one stream of it without a socket: messages in, answers out. It knows neither gRPC nor protobuf,
//! so that it runs alike before a proxy and in a test.

mod exchange;
mod message;

pub use exchange::{Exchange, Failed};
pub use message::{Answer, Answers, Event, Field, Message, Outgoing};
