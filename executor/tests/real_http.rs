//! The HTTP client of the production host, against a server on a real socket.

#![expect(clippy::disallowed_methods, reason = "the server it is tested against is a real socket")]

use std::time::Duration;

use executor::http::{Body, Endpoint};
use executor::{Real, Rt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn run<Fut: Future>(root: impl FnOnce(Rt) -> Fut) -> Fut::Output {
    Real::builder().current_thread().seed(1).build().unwrap().run(root)
}

async fn listen() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::from(listener.local_addr().unwrap());
    (listener, endpoint)
}

async fn read_head(socket: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn sends_the_request_and_reads_the_answer() {
    run(|rt| async move {
        let (listener, endpoint) = listen().await;
        let server = rt.spawn_local("server", async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let head = read_head(&mut socket).await;
            let mut body = [0; 4];
            socket.read_exact(&mut body).await.unwrap();
            socket.write_all(b"HTTP/1.1 201 Created\r\nx-a: b\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            (head, body)
        });
        let request = http::Request::post("/v1/x?y=1").header("x-c", "d").body(Body::from("ping")).unwrap();
        let response = rt.http().send(&endpoint, request).await.unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["x-a"]), (201, &"b".parse().unwrap()));
        assert_eq!(&response.into_body().bytes(10).await.unwrap()[..], b"ok");
        let (head, body) = server.await.unwrap();
        assert!(head.starts_with("POST /v1/x?y=1 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("host: {endpoint}\r\n")) && head.contains("x-c: d\r\n"), "{head}");
        assert_eq!(&body, b"ping");
    });
}

#[test]
fn a_port_without_a_listener_refuses() {
    run(|rt| async move {
        let (listener, endpoint) = listen().await;
        drop(listener);
        let error = rt.http().send(&endpoint, http::Request::new(Body::Empty)).await.unwrap_err();
        assert!(error.is_refused() && error.is_connect(), "{error:?}");
        assert_eq!(error.endpoint(), Some(&endpoint));
    });
}

#[test]
fn a_connection_that_ends_early_is_closed_not_an_answer() {
    run(|rt| async move {
        let (listener, endpoint) = listen().await;
        rt.spawn_local("server", async move {
            for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "no http at all\r\n\r\n"] {
                let (mut socket, _) = listener.accept().await.unwrap();
                read_head(&mut socket).await;
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let transport = rt.http();
        let get = || transport.send(&endpoint, http::Request::new(Body::Empty));
        assert!(get().await.unwrap_err().is_closed());
        assert!(get().await.unwrap().into_body().bytes(99).await.unwrap_err().is_closed());
        assert!(get().await.unwrap_err().is_protocol());
    });
}

#[test]
fn dropping_the_wait_or_the_body_closes_the_connection() {
    run(|rt| async move {
        let (listener, endpoint) = listen().await;
        let server = rt.spawn_local("server", async move {
            for answer in ["", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n"] {
                let (mut socket, _) = listener.accept().await.unwrap();
                read_head(&mut socket).await;
                socket.write_all(answer.as_bytes()).await.unwrap();
                // The client has gone when this ends.
                assert_eq!(socket.read(&mut [0]).await.unwrap_or(0), 0);
            }
        });
        let transport = rt.http();
        let wait = transport.send(&endpoint, http::Request::new(Body::Empty));
        assert!(rt.timeout(Duration::from_millis(50), wait).await.is_err());
        let response = transport.send(&endpoint, http::Request::new(Body::Empty)).await.unwrap();
        drop(response);
        rt.timeout(Duration::from_secs(10), server).await.expect("both connections close").unwrap();
    });
}
