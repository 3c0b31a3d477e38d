//! Uses of the machine and of the seam, with all that is said about them.

use std::collections::BTreeMap;
use std::fs;

use crate::clippy::{self, Report};
use crate::failure::Failure;
use crate::kind::Kind;
use crate::source::Source;
use crate::workspace::Workspace;

/// Whether a use goes through the seam or around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Around,
    Seam,
}

/// One use in one place.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) side: Side,
    pub(crate) kind: Kind,
    /// Relative to the workspace.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The function it is in, `-` outside of all.
    pub(crate) function: String,
    /// The path that is used, or the lint that found it.
    pub(crate) what: String,
    /// The line, without the space around it.
    pub(crate) text: String,
    /// What to do instead.
    pub(crate) advice: Option<String>,
    /// The reason of the `#[expect]` that covers it.
    pub(crate) reason: Option<String>,
}

/// Finds all uses in the packages, by file and line.
///
/// # Errors
/// When clippy cannot run, a file cannot be read, or something is banned that has no kind.
pub(crate) fn gather(workspace: &Workspace) -> Result<Vec<Use>, Failure> {
    let mut sources: BTreeMap<String, Source> = BTreeMap::new();
    let mut uses = Vec::new();
    for report in clippy::run(workspace)? {
        if !sources.contains_key(&report.file) {
            let path = workspace.root.join(&report.file);
            let text = fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, error))?;
            sources.insert(report.file.clone(), Source::parse(&text));
        }
        let (side, kind) = classify(&report)?;
        let source = &sources[&report.file];
        uses.push(Use {
            side,
            kind,
            line: report.line,
            function: source.function(report.line).to_owned(),
            what: report.path.unwrap_or(report.lint),
            text: source.line(report.line).to_owned(),
            advice: report.advice,
            reason: source.reason(report.line).map(str::to_owned),
            file: report.file,
        });
    }
    Ok(uses)
}

fn classify(report: &Report) -> Result<(Side, Kind), Failure> {
    let Some(path) = report.path.as_deref() else {
        let kind =
            if report.lint.contains("await_holding") { Kind::LockAcrossAwait } else { Kind::MapIteration };
        return Ok((Side::Around, kind));
    };
    if let Some(kind) = Kind::seam(path) {
        return Ok((Side::Seam, kind));
    }
    let kind = Kind::around(path).ok_or_else(|| {
        Failure::new(format!("`{path}` is banned but has no kind: give its beginning one in kind.rs"))
    })?;
    Ok((Side::Around, kind))
}
