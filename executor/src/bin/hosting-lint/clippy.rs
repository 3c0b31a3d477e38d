//! One run of clippy: its configuration, and what it found.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;

use crate::failure::Failure;
use crate::kind::SEAM;
use crate::workspace::{Workspace, cargo};

/// The lints that find uses; they are reported whatever the code allows or expects.
pub(crate) const LINTS: &[&str] = &[
    "clippy::disallowed_methods",
    "clippy::disallowed_types",
    "clippy::disallowed_macros",
    "clippy::iter_over_hash_type",
    "clippy::await_holding_lock",
    "clippy::await_holding_refcell_ref",
];

/// Names under which a workspace keeps clippy's configuration.
const CONFIGURATIONS: [&str; 2] = [".clippy.toml", "clippy.toml"];

/// One use, as clippy reports it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Report {
    /// Relative to the workspace.
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) lint: String,
    /// The path that is banned, `None` for a lint without a list.
    pub(crate) path: Option<String>,
    /// What the configuration says to do instead.
    pub(crate) advice: Option<String>,
}

/// Runs clippy over the libraries and programmes of the workspace's packages; one report a place, in order.
///
/// # Errors
/// When the code does not compile, and when the configuration bans what does not exist.
pub(crate) fn run(workspace: &Workspace) -> Result<Vec<Report>, Failure> {
    let configuration = configure(workspace)?;
    let mut command = cargo();
    command.current_dir(&workspace.root).env("CLIPPY_CONF_DIR", &configuration);
    command.args(["clippy", "--quiet", "--lib", "--bins", "--message-format=json"]);
    for package in &workspace.packages {
        command.args(["-p", &package.name]);
    }
    command.arg("--");
    for lint in LINTS {
        command.args(["--force-warn", lint]);
    }
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start cargo: {error}")))?;
    let (mut reports, mut errors) = (Vec::new(), String::new());
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| Failure::new(format!("cannot read from clippy: {error}")))?;
            let Ok(Event { manifest_path: Some(manifest), message: Some(message) }) =
                serde_json::from_str(&line)
            else {
                continue;
            };
            if message.level == "error" || message.is_about(&configuration) {
                errors.push_str(message.rendered.as_deref().unwrap_or(&message.message));
            } else if workspace.packages.iter().any(|package| package.manifest_path == manifest) {
                reports.extend(message.report());
            }
        }
    }
    let status = child.wait().map_err(|error| Failure::new(format!("cannot wait for clippy: {error}")))?;
    if !status.success() || !errors.is_empty() {
        return Err(Failure::new(format!("clippy could not examine the code ({status})\n{errors}")));
    }
    reports.sort();
    // A file that library and programme share is seen twice.
    reports.dedup();
    Ok(reports)
}

/// Writes the configuration of this run, the workspace's bans and the calls of the seam, and returns its folder.
fn configure(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let Some(path) = CONFIGURATIONS.iter().map(|name| workspace.root.join(name)).find(|path| path.exists())
    else {
        let root = workspace.root.display();
        return Err(Failure::new(format!("{root} has no .clippy.toml, the list of what is banned")));
    };
    let text = fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, error))?;
    let mut bans: toml::Table = text.parse().map_err(|error| Failure::file("parse", &path, error))?;
    let methods = bans.entry("disallowed-methods").or_insert_with(|| toml::Value::Array(Vec::new()));
    let Some(methods) = methods.as_array_mut() else {
        return Err(Failure::file("use", &path, "`disallowed-methods` is not a list"));
    };
    for (call, _) in SEAM {
        let entry = [("path", (*call).into()), ("allow-invalid", true.into())];
        let entry = entry.map(|(key, value): (_, toml::Value)| (key.to_owned(), value));
        methods.push(toml::Value::Table(entry.into_iter().collect()));
    }
    let folder = workspace.target.join("hosting-lint");
    fs::create_dir_all(&folder).map_err(|error| Failure::file("create", &folder, error))?;
    write_if_changed(&folder.join("clippy.toml"), &bans.to_string())?;
    Ok(folder)
}

/// Writes a file, but leaves it alone if it holds `text` already: Cargo rebuilds when it changes.
fn write_if_changed(path: &Path, text: &str) -> Result<(), Failure> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| Failure::file("write", path, error))
}

/// A line of Cargo's output, of which only compiler messages matter.
#[derive(Deserialize)]
struct Event {
    manifest_path: Option<PathBuf>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    message: String,
    level: String,
    code: Option<Code>,
    spans: Vec<Span>,
    children: Vec<Child>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
    column_start: usize,
    is_primary: bool,
    expansion: Option<Expansion>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Box<Span>,
}

#[derive(Deserialize)]
struct Child {
    level: String,
    message: String,
    spans: Vec<Span>,
}

impl Message {
    /// Returns whether the message complains about the configuration in `folder`.
    fn is_about(&self, folder: &Path) -> bool {
        self.spans.iter().any(|span| Path::new(&span.file_name).starts_with(folder))
    }

    fn report(self) -> Option<Report> {
        let lint = self.code?.code;
        if !LINTS.contains(&lint.as_str()) {
            return None;
        }
        let span = self.spans.into_iter().find(|span| span.is_primary)?.outermost();
        let path = lint.starts_with("clippy::disallowed").then(|| self.message.split('`').nth(1)).flatten();
        let mut notes =
            self.children.into_iter().filter(|child| child.level == "note" && child.spans.is_empty());
        // The other note without a place says which flag turned the lint on.
        let advice = notes.find(|note| !note.message.contains("force-warn")).map(|note| note.message);
        Some(Report {
            file: span.file_name,
            line: span.line_start,
            column: span.column_start,
            path: path.map(str::to_owned),
            lint,
            advice,
        })
    }
}

impl Span {
    /// Returns where the text is that a macro turned into this.
    fn outermost(self) -> Span {
        match self.expansion {
            Some(expansion) => expansion.span.outermost(),
            None => self,
        }
    }
}
