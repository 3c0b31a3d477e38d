use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use futures::future::{Either, select};
use http::{Request, Response};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::http::{Body, HEADER_TIMEOUT, Received};

/// How long the listener rests after an `accept` that failed for want of a resource.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listening socket that speaks HTTP/1.1 and HTTP/2 with prior knowledge (h2c).
///
/// Each connection is a task; so a service may run on any thread. A client that goes away drops the service's
/// future, or the body of its response: that is how the service learns of it.
pub struct Server {
    listener: TcpListener,
    local_addr: SocketAddr,
    connections: Arc<Semaphore>,
}

impl Server {
    /// Binds `addr`; port 0 takes a free one. At most `max_connections` are served at a time; further ones
    /// wait in the operating system's queue.
    ///
    /// # Errors
    /// When the address is in use or not ours, or the port is privileged.
    pub async fn bind(addr: SocketAddr, max_connections: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let local_addr = listener.local_addr()?;
        let connections = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
        Ok(Server { listener, local_addr, connections })
    }

    /// Returns the address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `shutdown` is ready, then takes no new connections, lets requests in flight finish for at
    /// most `drain`, and returns whether all of them did.
    pub async fn serve<S, F>(self, service: S, shutdown: impl Future<Output = ()>, drain: Duration) -> bool
    where
        S: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let mut shutdown = pin!(shutdown);
        let graceful = GracefulShutdown::new();
        let protocol = Arc::new(protocol());
        loop {
            let accepted = match select(&mut shutdown, pin!(self.accept())).await {
                Either::Left(_) => break,
                Either::Right((accepted, _)) => accepted,
            };
            let Some((stream, permit)) = accepted else { continue };
            let service = service.clone();
            let protocol = Arc::clone(&protocol);
            let watcher = graceful.watcher();
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let answer = service(request.map(Received::request));
                    async move { Ok::<_, std::convert::Infallible>(answer.await) }
                });
                let connection = protocol.serve_connection(TokioIo::new(stream), service);
                if let Err(error) = watcher.watch(connection).await {
                    tracing::debug!(%error, "connection ended early");
                }
                drop(permit);
            });
        }
        drop(self.listener);
        tokio::time::timeout(drain, graceful.shutdown()).await.is_ok()
    }

    async fn accept(&self) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
        let permit = Arc::clone(&self.connections).acquire_owned().await.ok()?;
        match self.listener.accept().await {
            Ok((stream, _)) => {
                // Small frames must not wait for the peer's acknowledgement.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY refused");
                }
                Some((stream, permit))
            }
            Err(error) => {
                if !is_of_one_connection(&error) {
                    tracing::warn!(%error, "cannot accept connections; trying again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                None
            }
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("local_addr", &self.local_addr).finish_non_exhaustive()
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    protocol.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    protocol
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .max_concurrent_streams(1024);
    protocol
}

/// Returns whether an error of `accept` concerns the connection that was about to be taken, not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;
    use crate::http::Endpoint;

    async fn echo(request: Request<Body>) -> Response<Body> {
        let body = request.into_body().bytes(1 << 20).await.unwrap_or_default();
        Response::new(Body::from(body))
    }

    #[test]
    fn answers_and_drains() {
        let real = Real::builder().current_thread().build().unwrap();
        real.run(|rt| async move {
            let server = Server::bind("127.0.0.1:0".parse().unwrap(), 16).await.unwrap();
            let endpoint = Endpoint::from(server.local_addr());
            let (stop, stopped) = rt.oneshot::<()>();
            let drain = Duration::from_secs(5);
            let serving = rt.spawn(
                "server",
                server.serve(
                    echo,
                    async {
                        let _ = stopped.await;
                    },
                    drain,
                ),
            );
            let request = Request::post("/echo").body(Body::from("hello")).unwrap();
            let response = rt.http().send(&endpoint, request).await.unwrap();
            assert_eq!(response.into_body().bytes(100).await.unwrap(), "hello");
            drop(stop);
            assert!(serving.await.unwrap(), "an idle connection must not hold up the drain");
            let late = rt.http().send(&endpoint, Request::new(Body::Empty)).await;
            assert!(late.unwrap_err().is_refused());
        });
    }

    #[test]
    fn a_second_bind_of_one_port_fails() {
        let real = Real::builder().current_thread().build().unwrap();
        real.run(|_| async {
            let first = Server::bind("127.0.0.1:0".parse().unwrap(), 1).await.unwrap();
            let second = Server::bind(first.local_addr(), 1).await;
            assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        });
    }
}
