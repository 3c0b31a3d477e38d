//! `lockstep-router serve` as a process, from outside: raw requests, signals, memory.
#![expect(
    clippy::disallowed_methods,
    reason = "clients and model servers of this test are outside of the router"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

const COMPLETION: &str = r#"{"model": "m", "prompt": "Hello", "max_tokens": 2}"#;
const STREAM: &str = r#"{"model": "m", "prompt": "Hello", "stream": true}"#;

/// A process that serves; killed when dropped.
struct Served {
    process: Child,
    address: SocketAddr,
    /// Kept open: the process goes on logging.
    _log: BufReader<ChildStderr>,
}

impl Served {
    /// Starts the router before `model_server`.
    fn start(model_server: SocketAddr, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_lockstep-router"))
            .args(["serve", "--listen", "127.0.0.1:0", "--endpoint", &model_server.to_string()])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut log = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains("serving address=") {
            line.clear();
            assert_ne!(log.read_line(&mut line).expect("text"), 0, "the process ended before it served");
        }
        let address = line.trim().rsplit('=').next().and_then(|address| address.parse().ok());
        Served { process, address: address.expect("the line names the address"), _log: log }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes it");
        stream
    }

    /// Sends bytes and returns the first line of the answer, and its whole head.
    fn ask(&self, request: &[u8]) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request).expect("it takes bytes");
        head(&mut BufReader::new(stream))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.process.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    fn wait(mut self) -> ExitStatus {
        self.process.wait().expect("it was not waited for")
    }

    /// Returns the memory that the process occupies. Unit: bytes.
    fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of it");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn post(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST /v1/completions HTTP/1.1\r\nhost: r\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into()
}

/// Reads the head of a message: its first line, and all of it.
fn head(from: &mut impl BufRead) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let read = from.read_until(b'\n', &mut head).expect("an answer in time");
        assert_ne!(read, 0, "it ended amid the head {:?}", String::from_utf8_lossy(&head));
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    (head.lines().next().unwrap_or_default().to_owned(), head)
}

fn content_length(head: &str) -> usize {
    let value = head.to_ascii_lowercase();
    let value = value.lines().find_map(|line| line.strip_prefix("content-length:"));
    value.map_or(0, |value| value.trim().parse().expect("a length"))
}

/// A model server: a streaming request is answered with the chunks that come over the channel, `None` ends it;
/// others get a short body.
fn model_server() -> (SocketAddr, Sender<Option<&'static str>>) {
    let (chunks, script) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let script = std::sync::Arc::new(std::sync::Mutex::new(script));
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let script = std::sync::Arc::clone(&script);
            thread::spawn(move || serve(connection, &script));
        }
    });
    (address, chunks)
}

fn serve(mut connection: TcpStream, script: &std::sync::Mutex<Receiver<Option<&'static str>>>) {
    connection.set_nodelay(true).expect("a socket takes it");
    let mut reader = BufReader::new(connection.try_clone().expect("a second handle"));
    while reader.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
        let (_, head) = head(&mut reader);
        let mut body = vec![0; content_length(&head)];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let done = if String::from_utf8_lossy(&body).contains("\"stream\"") {
            let script = script.lock().expect("one stream at a time");
            stream(&mut connection, &script)
        } else {
            connection
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\na 1\n")
        };
        if done.is_err() {
            return;
        }
    }
}

fn stream(to: &mut TcpStream, script: &Receiver<Option<&'static str>>) -> std::io::Result<()> {
    to.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    while let Ok(Some(chunk)) = script.recv() {
        write!(to, "{:x}\r\n{chunk}\r\n", chunk.len())?;
    }
    to.write_all(b"0\r\n\r\n")
}

/// Opens a stream through the router and reads its first chunk.
fn open_stream(router: &Served, chunks: &Sender<Option<&'static str>>) -> BufReader<TcpStream> {
    let mut client = router.connect();
    client.write_all(&post(STREAM)).expect("it takes bytes");
    let mut client = BufReader::new(client);
    assert_eq!(head(&mut client).0, "HTTP/1.1 200 OK");
    chunks.send(Some("data: 1\n\n")).expect("the server listens");
    let mut first = [0; 14];
    client.read_exact(&mut first).expect("the first chunk");
    assert_eq!(&first, b"9\r\ndata: 1\n\n\r\n");
    client
}

fn refuses_connections(router: &Served) -> bool {
    (0..200).any(|_| {
        thread::sleep(Duration::from_millis(10));
        TcpStream::connect(router.address).is_err()
    })
}

#[test]
fn a_drain_lets_an_open_stream_come_to_its_end() {
    let (server, chunks) = model_server();
    let router = Served::start(server, &[]);
    let mut client = open_stream(&router, &chunks);
    router.signal("TERM");
    assert!(refuses_connections(&router), "nobody new comes in during a drain");
    chunks.send(Some("data: [DONE]\n\n")).expect("the server listens");
    chunks.send(None).expect("the server listens");
    let mut rest = String::new();
    client.read_to_string(&mut rest).expect("a whole stream, and then the end of the connection");
    assert!(rest.eq_ignore_ascii_case("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"), "{rest:?}");
    assert_eq!(router.wait().code(), Some(0));
}

#[test]
fn the_drain_limit_cuts_a_stream_off() {
    let (server, chunks) = model_server();
    let router = Served::start(server, &["--drain-timeout", "0"]);
    let mut client = open_stream(&router, &chunks);
    router.signal("TERM");
    let mut rest = Vec::new();
    // A reset is as good as an end: the client knows that the stream is not whole.
    let _ = client.read_to_end(&mut rest);
    assert_eq!(rest, b"", "a cut stream has no last chunk");
    assert_eq!(router.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_drain() {
    let (server, chunks) = model_server();
    let router = Served::start(server, &["--drain-timeout", "600"]);
    let _client = open_stream(&router, &chunks);
    router.signal("TERM");
    assert!(refuses_connections(&router));
    router.signal("INT");
    assert_eq!(router.wait().code(), Some(1));
}

#[test]
fn the_routers_own_paths_do_not_reach_a_model_server() {
    let (server, _chunks) = model_server();
    let router = Served::start(server, &[]);
    for (method, path, first_line, header) in [
        ("GET", "/healthz", "HTTP/1.1 200 OK", "content-length: 3\r\n"),
        ("HEAD", "/healthz", "HTTP/1.1 200 OK", "content-length: 3\r\n"),
        ("HEAD", "/metrics", "HTTP/1.1 200 OK", "content-type: text/plain; version=0.0.4"),
        ("PUT", "/metrics", "HTTP/1.1 405 Method Not Allowed", "allow: GET, HEAD\r\n"),
        ("DELETE", "/healthz", "HTTP/1.1 405 Method Not Allowed", "allow: GET, HEAD\r\n"),
        ("OPTIONS", "/metrics?x=1", "HTTP/1.1 405 Method Not Allowed", "allow: GET, HEAD\r\n"),
    ] {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: r\r\n\r\n");
        let (line, head) = router.ask(request.as_bytes());
        assert_eq!(line, first_line, "{method} {path}");
        assert!(head.contains(header), "{method} {path}: {head}");
    }
    // The answer to HEAD has no body: the next answer on the connection follows at once.
    let mut both = router.connect();
    let requests = "HEAD /healthz HTTP/1.1\r\nhost: r\r\n\r\nGET /healthz HTTP/1.1\r\nhost: r\r\nconnection: close\r\n\r\n";
    both.write_all(requests.as_bytes()).expect("it takes bytes");
    let mut answers = String::new();
    both.read_to_string(&mut answers).expect("two answers");
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answers}");
    assert_eq!(answers.matches("\r\n\r\nHTTP/1.1").count(), 1, "{answers}");
    assert!(answers.ends_with("\r\n\r\nok\n"), "{answers}");
}

#[test]
fn no_request_reaches_a_model_server_as_another() {
    let (server, _chunks) = model_server();
    let router = Served::start(server, &[]);
    let length = COMPLETION.len();
    let chunked = format!("{length:x}\r\n{COMPLETION}\r\n0\r\n\r\n");
    let with = |headers: &str, body: &str| {
        let head = "POST /v1/completions HTTP/1.1\r\nhost: r\r\ncontent-type: application/json\r\n";
        format!("{head}{headers}\r\n{body}").into_bytes()
    };
    let own = format!("content-length: {length}\r\n");
    let mut raw_bytes = b"POST /v1/completions HTTP/1.1\r\nhost: r\r\nx: \xff\xfe\r\n".to_vec();
    raw_bytes.extend_from_slice(format!("{own}\r\n{COMPLETION}").as_bytes());
    for (what, request, status) in [
        ("plain", with(&own, COMPLETION), 200),
        ("chunked", with("transfer-encoding: chunked\r\n", &chunked), 200),
        ("a coding that is not undone", with("transfer-encoding: gzip, chunked\r\n", &chunked), 501),
        ("chunked twice", with("transfer-encoding: chunked, chunked\r\n", &chunked), 501),
        ("a coding that does not end", with("transfer-encoding: gzip\r\n", &chunked), 400),
        ("blank before the colon", with("transfer-encoding : chunked\r\n", &chunked), 400),
        ("two lengths", with(&format!("{own}content-length: 3\r\n"), COMPLETION), 400),
        ("a list of lengths", with(&format!("content-length: {length}, {length}\r\n"), COMPLETION), 400),
        ("a negative length", with("content-length: -1\r\n", ""), 400),
        ("a signed length", with("content-length: +5\r\n", "12345"), 400),
        ("two hosts", with(&format!("host: other\r\n{own}"), COMPLETION), 400),
        ("an upgrade", with(&format!("connection: upgrade\r\nupgrade: websocket\r\n{own}"), COMPLETION), 200),
        ("bytes in a header", raw_bytes, 200),
        ("no JSON", with("content-length: 3\r\n", "\u{1}\u{2}\u{3}"), 400),
        ("an own method", b"FOO /x HTTP/1.1\r\nhost: r\r\n\r\n".to_vec(), 200),
        ("connect", b"CONNECT r:1 HTTP/1.1\r\nhost: r\r\n\r\n".to_vec(), 405),
        ("a long header", with(&format!("x: {}\r\n{own}", "a".repeat(600_000)), COMPLETION), 431),
        ("many headers", with(&format!("{}{own}", "x: 1\r\n".repeat(200)), COMPLETION), 431),
        ("no HTTP", b"\0\x01\x02\r\n\r\n".to_vec(), 400),
    ] {
        let (line, _) = router.ask(&request);
        assert!(line.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {line}");
    }
}

/// A length beside `chunked` is a smuggler's way: the chunks count, and the connection ends with the answer.
#[test]
fn a_length_beside_chunked_ends_the_connection() {
    let (server, _chunks) = model_server();
    let router = Served::start(server, &[]);
    let length = COMPLETION.len();
    let hidden = "GET /healthz HTTP/1.1\r\nhost: r\r\n\r\n";
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: r\r\ncontent-type: application/json\r\ncontent-length: 6\r\n\
         transfer-encoding: chunked\r\n\r\n{length:x}\r\n{COMPLETION}\r\n0\r\n\r\n{hidden}"
    );
    let mut client = router.connect();
    client.write_all(request.as_bytes()).expect("it takes bytes");
    let mut answers = Vec::new();
    let _ = client.read_to_end(&mut answers);
    let answers = String::from_utf8_lossy(&answers);
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
    assert!(answers.contains("connection: close\r\n"), "{answers}");
}

#[test]
fn a_body_that_is_too_long_is_refused_in_words() {
    let (server, _chunks) = model_server();
    let router = Served::start(server, &["--max-body-bytes", "1000"]);
    let long = "x".repeat(3 << 20);
    let chunked = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: r\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
        long.len()
    );
    let waiting =
        "POST /v1/completions HTTP/1.1\r\nhost: r\r\ncontent-length: 3000000\r\nexpect: 100-continue\r\n\r\n";
    for request in [post(&long), chunked.into_bytes(), waiting.as_bytes().to_vec()] {
        let mut client = router.connect();
        client.write_all(&request).expect("the body is taken to its end");
        let mut client = BufReader::new(client);
        let (line, head) = head(&mut client);
        assert_eq!(line, "HTTP/1.1 413 Payload Too Large");
        let mut body = vec![0; content_length(&head)];
        client.read_exact(&mut body).expect("a body");
        assert!(String::from_utf8_lossy(&body).contains("longer than 1000 bytes"));
    }
}

/// With `--explain`, a request's reason can be asked for, and its response names the choice; without, neither is there.
#[test]
fn a_decision_is_explained_to_who_asks() {
    let (server, _chunks) = model_server();
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: r\r\nx-request-id: r-1\r\ncontent-length: {}\r\n\r\n{COMPLETION}",
        COMPLETION.len()
    );
    let page =
        |id: &str| format!("GET /debug/decisions/{id} HTTP/1.1\r\nhost: r\r\nconnection: close\r\n\r\n");

    let router = Served::start(server, &["--explain", "10"]);
    let (_, head) = router.ask(request.as_bytes());
    let line = format!("x-lockstep-decision: endpoint=default/{server}; score=");
    assert!(head.contains(&line) && head.contains("; candidates=1\r\n"), "{head}");
    let mut client = router.connect();
    client.write_all(page("r-1").as_bytes()).expect("it takes bytes");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let reason: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let endpoint = format!("default/{server}");
    assert_eq!((&reason["request_id"], &reason["chosen"][0]), (&"r-1".into(), &endpoint.as_str().into()));
    assert_eq!(reason["candidates"][0]["endpoint"], endpoint.as_str());
    // The built-in configuration (configuration spec 2.2).
    let scorers = reason["profiles"][0]["scorers"].as_array().expect("a list");
    let weights: Vec<_> =
        scorers.iter().map(|scorer| (scorer["plugin"].as_str(), scorer["weight"].as_f64())).collect();
    let expected =
        [("queue-scorer", 2.0), ("kv-cache-utilization-scorer", 2.0), ("prefix-cache-scorer", 3.0)];
    assert_eq!(weights, expected.map(|(name, weight)| (Some(name), Some(weight))));
    assert_eq!(router.ask(page("r-2").as_bytes()).0, "HTTP/1.1 404 Not Found");

    let router = Served::start(server, &[]);
    assert!(!router.ask(request.as_bytes()).1.contains("x-lockstep-decision"));
    assert_eq!(router.ask(page("r-1").as_bytes()).0, "HTTP/1.1 200 OK", "the path is a model server's");
}

/// Thousands of requests leave nothing behind.
#[test]
fn memory_is_flat_over_many_requests() {
    let (server, _chunks) = model_server();
    let router = Served::start(server, &["--worker-threads", "1"]);
    let mut client = BufReader::new(router.connect());
    let mut send = |count: usize| {
        for _ in 0..count {
            client.get_mut().write_all(&post(COMPLETION)).expect("it takes bytes");
            let (line, head) = head(&mut client);
            assert_eq!(line, "HTTP/1.1 200 OK");
            client.read_exact(&mut vec![0; content_length(&head)]).expect("a body");
        }
    };
    send(1000);
    let before = router.resident();
    send(2000);
    let grown = router.resident().saturating_sub(before);
    // 400 bytes a request: what the router keeps of one while it is open is more than that.
    assert!(grown < 800_000, "{grown} bytes more after 2,000 requests");
}
