//! `hosting-lint` on a scratch workspace: every kind of use is planted and caught, and none hides behind another.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// One use of each kind, by the path or lint that gives it away, in a function named after it.
const PLANTED: &[(&str, &str, &str)] = &[
    ("clock", "std::time::Instant::now", "fn clock() { std::time::Instant::now(); }"),
    ("timer", "std::thread::sleep", "fn timer() { std::thread::sleep(std::time::Duration::ZERO); }"),
    ("deadline", "tokio::time::timeout", "fn deadline() { tokio::time::timeout(1, 2); }"),
    ("spawn", "tokio::spawn", "fn spawn() { tokio::spawn(3); }"),
    ("thread", "std::thread::spawn", "fn thread() { std::thread::spawn(|| ()); }"),
    ("randomness", "rand::random", "fn randomness() { rand::random(); }"),
    (
        "map-iteration",
        "std::collections::HashMap::values",
        "fn map_iteration(map: &std::collections::BTreeMap<u8, u8>, other: &fixed::Map) -> usize { map.len() + other.values().count() }",
    ),
    (
        "map-iteration",
        "clippy::iter_over_hash_type",
        "fn map_loop(map: &fixed::Map) { for pair in map { drop(pair); } }",
    ),
    (
        "outbound-http",
        "std::net::TcpStream::connect",
        "fn outbound_http() { drop(std::net::TcpStream::connect(\"localhost:80\")); }",
    ),
    ("blocking", "futures::executor::block_on", "fn blocking() { futures::executor::block_on(4); }"),
    ("waiting", "tokio::sync::Notify::new", "fn waiting() { tokio::sync::Notify::new(); }"),
    ("environment", "std::env::var", "fn environment() { drop(std::env::var(\"HOME\")); }"),
    ("select", "tokio::select", "fn select() { tokio::select!(5); }"),
    ("select", "futures::select", "fn select_futures() { futures::select!(5); }"),
    (
        "lock-across-await",
        "clippy::await_holding_lock",
        "async fn lock_across_await(m: &std::sync::Mutex<u8>) { let held = m.lock().unwrap(); std::future::ready(()).await; drop(held); }",
    ),
    (
        "lock-across-await",
        "clippy::await_holding_refcell_ref",
        "async fn borrow_across_await(c: &std::cell::RefCell<u8>) { let held = c.borrow(); std::future::ready(()).await; drop(held); }",
    ),
    ("state", "std::thread_local", "std::thread_local! { static STATE: u8 = const { 6 }; }"),
    ("float", "f64::exp", "fn float(x: f64) -> f64 { x.exp() }"),
];

/// What of other crates the planted uses need: crates of these names that hold no more than that.
const TOKIO: &str = "
    pub fn spawn(_: u8) {}
    pub mod time { pub fn timeout(_: u8, _: u8) {} }
    pub mod sync { pub struct Notify; impl Notify { pub fn new() {} } }
    #[macro_export] macro_rules! select { ($x:expr) => { $x } }
";
const FUTURES: &str = "
    pub mod executor { pub fn block_on(_: u8) {} }
    #[macro_export] macro_rules! select { ($x:expr) => { $x } }
";
const FIXED: &str = "
    pub type Map = std::collections::HashMap<u8, u8, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
";
const RAND: &str = "
    pub fn random() {}
";
const EXECUTOR: &str = "
    pub struct Rt;
    impl Rt { pub fn now(&self) -> u64 { 7 } pub fn stream(&self, _: &str) -> u64 { 8 } }
";

/// A workspace with the crate `hosted`, which the lint examines.
struct Scratch(TempDir);

/// How the lint ended, and what it said.
struct Said {
    status: Option<i32>,
    text: String,
}

impl Scratch {
    fn new() -> Self {
        let scratch = Scratch(tempfile::tempdir().expect("a folder"));
        let members = ["hosted", "tokio", "futures", "fixed", "rand", "executor"];
        scratch.write("Cargo.toml", &format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n"));
        scratch.write(".clippy.toml", include_str!("../../.clippy.toml"));
        for (name, source) in members[1..].iter().zip([TOKIO, FUTURES, FIXED, RAND, EXECUTOR]) {
            scratch.package(name, "", source);
        }
        let dependencies: String =
            members[1..].iter().map(|name| format!("{name} = {{ path = \"../{name}\" }}\n")).collect();
        scratch.package("hosted", &dependencies, "");
        scratch
    }

    fn package(&self, name: &str, dependencies: &str, source: &str) {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n{dependencies}"
        );
        self.write(&format!("{name}/Cargo.toml"), &manifest);
        self.write(&format!("{name}/src/lib.rs"), source);
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).expect("read")
    }

    /// Runs the lint over the crate `hosted` with this source.
    fn lint(&self, source: &str, arguments: &[&str]) -> Said {
        self.write("hosted/src/lib.rs", source);
        let output = Command::new(env!("CARGO_BIN_EXE_hosting-lint"))
            .args(["--package", "hosted", "--root"])
            .arg(self.0.path())
            .args(arguments)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", self.path("target"))
            .output()
            .expect("the lint runs");
        let text = [output.stdout, output.stderr].map(|part| String::from_utf8(part).expect("text")).concat();
        Said { status: output.status.code(), text }
    }
}

#[test]
fn every_kind_of_use_is_caught() {
    let scratch = Scratch::new();
    let source: String = PLANTED.iter().map(|(_, _, code)| format!("{code}\n")).collect();
    let said = scratch.lint(&source, &[]);
    assert_eq!(said.status, Some(1), "{}", said.text);
    for (kind, what, code) in PLANTED {
        let report = format!("new use of {kind}, `{what}`, not in the baseline\n");
        let Some(place) = said.text.find(&report) else { panic!("{report} is not in\n{}", said.text) };
        let line = said.text[place..].lines().nth(2).map(str::trim);
        assert_eq!(line, Some(*code), "{}", said.text);
    }
    assert_eq!(said.text.matches("new use of").count(), PLANTED.len(), "{}", said.text);
}

/// The clock, as its own crate accepts it.
const ACCEPTED: &str = "
#[expect(clippy::disallowed_methods, reason = \"for the screen\")]
pub fn start() {
    let _at = std::time::Instant::now();
}
";

#[test]
fn an_accepted_use_is_one_use() {
    let scratch = Scratch::new();
    let said = scratch.lint(ACCEPTED, &[]);
    assert_eq!(said.status, Some(1), "an `expect` does not hide a use: {}", said.text);
    assert!(said.text.contains("hosted/src/lib.rs:4, in start"), "{}", said.text);

    let said = scratch.lint(ACCEPTED, &["--update"]);
    assert_eq!(said.status, Some(0), "{}", said.text);
    assert!(scratch.read(".hosting-lint/baseline.toml").contains("reason = \"for the screen\""));
    assert_eq!(scratch.lint(ACCEPTED, &[]).status, Some(0));

    // The same line once more, under the same `expect`, further up.
    let twice = ACCEPTED.replace("let _at", "let _at = std::time::Instant::now();\n    let _at");
    let said = scratch.lint(&twice, &[]);
    assert_eq!(said.status, Some(1), "{}", said.text);
    assert_eq!(said.text.matches("new use of").count(), 1, "{}", said.text);
    assert!(!said.text.contains("stale"), "{}", said.text);

    // Gone from one function, new in another.
    let moved = ACCEPTED.replace("fn start", "fn restart");
    let said = scratch.lint(&moved, &[]);
    assert_eq!(said.status, Some(1), "{}", said.text);
    assert!(said.text.contains("new use of clock") && said.text.contains("in restart"), "{}", said.text);
    assert!(
        said.text.contains("stale row") && said.text.contains("hosted/src/lib.rs, start"),
        "{}",
        said.text
    );

    // Only gone.
    let said = scratch.lint("", &[]);
    assert_eq!(said.status, Some(1), "{}", said.text);
    assert!(said.text.contains("stale row") && !said.text.contains("new use"), "{}", said.text);

    // A use whose reason nobody gives is written down, and asked for until somebody does.
    let bare = ACCEPTED.replace(", reason = \"for the screen\"", "").replace("fn start", "fn bare");
    let said = scratch.lint(&bare, &["--update"]);
    assert_eq!(said.status, Some(1), "{}", said.text);
    assert!(said.text.contains("a reason is missing"), "{}", said.text);
    assert_eq!(scratch.lint(&bare, &[]).status, Some(1));
    let baseline = scratch.read(".hosting-lint/baseline.toml").replace("reason = \"\"", "reason = \"given\"");
    scratch.write(".hosting-lint/baseline.toml", &baseline);
    assert_eq!(scratch.lint(&bare, &[]).status, Some(0));
}

#[test]
fn calls_of_the_seam_are_counted_and_capped() {
    let scratch = Scratch::new();
    scratch.write(".hosting-lint/budget.toml", "[hosted]\nlib = 1\n");
    let one = "pub fn tick(rt: &executor::Rt) -> u64 { rt.now() + rt.now() }\n";
    let said = scratch.lint(one, &[]);
    assert_eq!(said.status, Some(0), "one line, however many calls: {}", said.text);

    let two = format!("{one}pub fn draw(rt: &executor::Rt) -> u64 {{ rt.stream(\"draws\") }}\n");
    let said = scratch.lint(&two, &[]);
    assert_eq!(said.status, Some(1), "{}", said.text);
    assert!(said.text.contains("hosted/lib calls the seam on 2 lines, its cap is 1"), "{}", said.text);
    let said = scratch.lint(&two, &["--audit", "hosted/src"]);
    assert!(
        said.text.contains("randomness") && said.text.contains("executor::Rt::stream  in draw"),
        "{}",
        said.text
    );

    assert_eq!(scratch.lint(&two, &["--update"]).status, Some(0));
    assert!(scratch.read(".hosting-lint/budget.toml").contains("lib = 2"));
    assert_eq!(scratch.lint(&two, &[]).status, Some(0));
}

#[test]
fn what_cannot_be_examined_is_said() {
    let scratch = Scratch::new();
    let said = scratch.lint("fn broken( {", &[]);
    assert_eq!(said.status, Some(2), "{}", said.text);
    assert!(said.text.contains("clippy could not examine the code"), "{}", said.text);

    let said = scratch.lint("", &["--package", "hosed"]);
    assert_eq!(said.status, Some(2), "{}", said.text);
    assert!(said.text.contains("there is no package `hosed`; packages: ") && said.text.contains("hosted"));

    let bans = scratch.read(".clippy.toml").replace("std::env::args\"", "std::env::nothing\"");
    scratch.write(".clippy.toml", &bans);
    let said = scratch.lint("", &[]);
    assert_eq!(said.status, Some(2), "{}", said.text);
    assert!(said.text.contains("std::env::nothing"), "{}", said.text);
}
