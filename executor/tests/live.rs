#![expect(clippy::disallowed_methods, reason = "what is outside of a live run: threads, sockets, files")]
//! The host that can be recorded, and its replay.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use executor::http::{Body, Endpoint};
use executor::journal::{End, Header, Kind, Reader, WriterOptions};
use executor::live::{Inlet, Live, Port, Replay, Told};
use executor::sync::mpsc::UnboundedSender;
use executor::{Missed, Rt, Server};
use http::{Request, Response};
use prost::Message;
use tempfile::tempdir;

const MS: Duration = Duration::from_millis(1);

/// Takes numbers; zero ends the run.
struct Numbers(UnboundedSender<u64>);

impl Port for Numbers {
    type Input = u64;

    fn record(&mut self, input: &mut u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&input.to_le_bytes());
    }

    fn replay(&mut self, recorded: &[u8]) -> Result<u64, String> {
        recorded.try_into().map(u64::from_le_bytes).map_err(|_| "no number".to_owned())
    }

    fn take(&mut self, input: u64) {
        self.0.send(input).expect("the program receives");
    }
}

/// Decides about numbers, by chance and by the clock, in tasks of their own; asks `server` about some.
async fn program(rt: Rt, server: Endpoint, ready: Option<mpsc::Sender<Inlet<u64>>>) {
    let intake = rt.live().expect("a live run or its replay");
    let (sender, mut numbers) = rt.mpsc_unbounded();
    let inlet = intake.open(Numbers(sender));
    if let Some(ready) = ready {
        ready.send(inlet).expect("the test waits");
    }
    let ticks = Rc::new(RefCell::new(0u64));
    let counted = Rc::clone(&ticks);
    let mut ticker = rt.interval(3 * MS, Missed::Skip);
    drop(rt.daemon("ticker", async move {
        loop {
            ticker.tick().await;
            *counted.borrow_mut() += 1;
        }
    }));
    let dice = Rc::new(RefCell::new(rt.stream("dice")));
    while let Some(number) = numbers.recv().await {
        if number == 0 {
            break;
        }
        let (rt2, dice, ticks, server) = (rt.clone(), Rc::clone(&dice), Rc::clone(&ticks), server.clone());
        // The run ends when all have decided.
        drop(rt.spawn_local("decides", async move {
            let draw = dice.borrow_mut().below(1000);
            if number.is_multiple_of(3) {
                rt2.sleep(Duration::from_micros(draw)).await;
            }
            let mut answer = String::new();
            if number.is_multiple_of(5) {
                let request = Request::get("/page").body(Body::Empty).expect("a request");
                answer = match rt2.http().send(&server, request).await {
                    Ok(response) => {
                        let status = response.status();
                        let body = response.into_body().bytes(1 << 20).await.expect("a whole answer");
                        format!("{status} {}", String::from_utf8_lossy(&body))
                    }
                    Err(error) => format!("{error}, {}", error.is_refused()),
                };
            }
            let wall = rt2.wall().unix_nanos() % 1_000;
            let decision = format!("{number} {draw} {} {} {wall} {answer}", rt2.now(), ticks.borrow());
            rt2.live().expect("as before").decided(decision.as_bytes());
        }));
    }
}

/// Runs the program live, with numbers from several threads, and returns the digest.
fn record(folder: &Path, options: WriterOptions) -> u64 {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let server = tokio.block_on(Server::bind("127.0.0.1:0".parse().unwrap(), 10_000)).unwrap();
    let address = Endpoint::from(server.local_addr());
    let answer = |request: Request<Body>| async move { Response::new(Body::from(request.uri().to_string())) };
    tokio.spawn(server.serve(answer, std::future::pending(), Duration::ZERO));
    let (ready, inlet) = mpsc::channel();
    let (handle, folder) = (tokio.handle().clone(), folder.to_owned());
    let live = std::thread::spawn(move || {
        let header = Header { subject: "test".to_owned(), ..Header::default() };
        let live = Live::builder(handle).record(folder, header, options).build().unwrap();
        let status = std::sync::Arc::clone(live.recording().unwrap());
        let run = live.run(move |rt| program(rt, address, Some(ready)));
        assert!(run.report.is_clean(), "{}", run.report);
        assert_eq!(status.failure(), None);
        run.report.digest
    });
    let inlet = inlet.recv().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let inlet = inlet.clone();
            scope.spawn(move || {
                for number in 1..=400 {
                    inlet.send(number * 3 + thread).unwrap();
                    if number % 16 == 0 {
                        std::thread::sleep(MS);
                    }
                }
            });
        }
    });
    inlet.send(0).unwrap();
    let digest = live.join().unwrap();
    assert_eq!(inlet.send(1), Err(1), "the run is over");
    digest
}

#[derive(Default, Debug)]
struct Heard {
    recorded: Vec<String>,
    decided: Vec<String>,
    checkpoints: Vec<bool>,
    unreadable: Vec<String>,
}

fn replay(folder: &Path) -> (executor::RunReport, Heard, Option<executor::journal::Cut>) {
    let heard = Rc::new(RefCell::new(Heard::default()));
    let hearing = Rc::clone(&heard);
    let reader = Reader::open(folder).unwrap();
    let replay = Replay::new(reader).tell(move |told| {
        let heard = &mut *hearing.borrow_mut();
        let text = |body: &[u8]| String::from_utf8(body.to_vec()).unwrap();
        match told {
            Told::Recorded(_, body) => heard.recorded.push(text(body)),
            Told::Decided(_, body) => heard.decided.push(text(body)),
            Told::Checkpoint(_, same) => heard.checkpoints.push(same),
            Told::Unreadable(_, why) => heard.unreadable.push(why.to_owned()),
        }
    });
    // Nothing is sent: the address does not matter.
    let nowhere = Endpoint::new("192.0.2.1", 1).unwrap();
    let run = replay.run(move |rt| program(rt, nowhere, None));
    let mut reader = Reader::open(folder).unwrap();
    reader.by_ref().for_each(drop);
    (run.report, heard.take(), reader.cut().cloned())
}

#[test]
fn a_replay_does_what_the_live_run_did() {
    let folder = tempdir().unwrap();
    let digest = record(folder.path(), WriterOptions::default());
    let (report, heard, cut) = replay(folder.path());
    assert_eq!((report.digest, cut), (digest, None));
    assert_eq!(heard.recorded.len(), 1200);
    assert_eq!(heard.decided, heard.recorded);
    assert!(heard.recorded.iter().any(|decision| decision.ends_with("200 OK /page")));
    assert!(heard.checkpoints.len() >= 2 && heard.checkpoints.iter().all(|same| *same));
    let end = Reader::open(folder.path()).unwrap().find(|record| record.kind == Kind::End).unwrap();
    let end = End::decode(end.body.as_slice()).unwrap();
    assert_eq!((end.digest, end.outcome.as_str()), (digest, "completed"));
}

#[test]
fn a_torn_journal_replays_up_to_its_last_whole_frame() {
    let folder = tempdir().unwrap();
    record(folder.path(), WriterOptions { segment_bytes: 1, level: 1 });
    let mut segments: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let last = segments.last().unwrap();
    let bytes = fs::read(last).unwrap();
    fs::write(last, &bytes[..bytes.len() - 5]).unwrap();
    let (_, heard, cut) = replay(folder.path());
    assert!(cut.expect("a torn frame").to_string().contains("a frame is torn"));
    assert!(heard.decided.len() >= heard.recorded.len());
    assert_eq!(heard.decided[..heard.recorded.len()], heard.recorded);
}

#[test]
fn an_input_that_no_port_can_read_ends_the_replay_and_is_told() {
    let folder = tempdir().unwrap();
    let header = Header { subject: "test".to_owned(), ..Header::default() };
    let mut writer =
        executor::journal::Writer::create(folder.path(), header, WriterOptions::default()).unwrap();
    for (millis, body) in [(1, &[1, 9, 0, 0, 0, 0, 0, 0, 0][..]), (2, &[1, 9]), (3, &[7])] {
        let at = executor::Instant::ZERO + MS * millis;
        writer.append(Kind::Input, at, body).unwrap();
    }
    writer.finish().unwrap();
    let (_, heard, _) = replay(folder.path());
    assert_eq!(heard.unreadable, ["no number"]);
}

#[test]
fn a_refused_connection_is_an_input_too() {
    let folder = tempdir().unwrap();
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let header = Header { subject: "test".to_owned(), ..Header::default() };
    let live = Live::builder(tokio.handle().clone());
    let live = live.record(folder.path(), header, WriterOptions::default()).build().unwrap();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = live.run(move |rt| async move {
        let request = Request::get("/").body(Body::Empty).unwrap();
        rt.http().send(&free.into(), request).await.unwrap_err().is_refused()
    });
    let digest = run.report.digest;
    assert!(run.unwrap());
    let replayed = Replay::new(Reader::open(folder.path()).unwrap()).run(move |rt| async move {
        let request = Request::get("/").body(Body::Empty).unwrap();
        rt.http().send(&free.into(), request).await.unwrap_err().is_refused()
    });
    assert_eq!(replayed.report.digest, digest);
    assert!(replayed.unwrap());
}
