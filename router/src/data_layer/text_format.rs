//! Reader of the Prometheus text exposition format (configuration spec 6.2).
//!
//! A scrape of a model server holds a hundred families, of which the router reads five or six. So the body is
//! read in two steps: [`Exposition::parse`] checks every line, as strictly as the format demands, and notes
//! where the samples of each family lie; [`Family::samples`] decodes those of one family when somebody asks.
//! The first step allocates nothing for a series.

mod line;
mod sample;

use std::fmt;

use bytes::Bytes;
use rustc_hash::FxHashMap;

pub use sample::{Labels, Sample};

use line::{Comment, KnownLabels};

/// What `# TYPE` says of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rises only.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Buckets, sum and count.
    Histogram,
    /// Quantiles, sum and count.
    Summary,
    /// Nothing said, or `untyped`.
    Untyped,
}

/// Why a body is not an exposition; it fails the whole scrape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text format error in line {line}: {reason}")]
pub struct SyntaxError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong in it.
    pub reason: Reason,
}

/// What is wrong in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The last line has no newline.
    #[error("unexpected end of input")]
    EndOfInput,
    /// The line does not start with a metric name.
    #[error("invalid metric name")]
    MetricName,
    /// A `HELP` or `TYPE` comment names no metric.
    #[error("invalid metric name in comment")]
    CommentName,
    /// Two `HELP` lines for one family.
    #[error("second HELP line for the metric")]
    SecondHelp,
    /// Two `TYPE` lines, or one below a sample.
    #[error("second TYPE line for the metric, or TYPE reported after samples")]
    SecondType,
    /// Not one of the types that exist.
    #[error("unknown metric type")]
    UnknownType,
    /// Not a label name.
    #[error("invalid label name")]
    LabelName,
    /// `__name__` is not for samples.
    #[error("label name __name__ is reserved")]
    ReservedLabel,
    /// A label twice in one sample.
    #[error("duplicate label name")]
    DuplicateLabel,
    /// No `=` between label name and value.
    #[error("expected '=' after label name")]
    Equals,
    /// The value of a label is not quoted.
    #[error("expected '\"' at start of label value")]
    Quote,
    /// A newline, an invalid escape or bytes that are not UTF-8.
    #[error("invalid label value")]
    LabelValue,
    /// Neither `,` nor `}` after a label.
    #[error("expected ',' or '}}' after label value")]
    AfterLabel,
    /// `le` or `quantile` is not a number.
    #[error("expected a number as value of the label")]
    Bound,
    /// The value is not a number.
    #[error("expected a number as value")]
    Value,
    /// The timestamp is not an integer.
    #[error("expected an integer as timestamp")]
    Timestamp,
    /// Text after the timestamp.
    #[error("spurious text after timestamp")]
    AfterTimestamp,
    /// An escape other than `\\`, `\n` and `\"` in a help text.
    #[error("invalid escape sequence in help text")]
    HelpEscape,
    /// The body is longer than 4 GiB.
    #[error("body too long")]
    TooLong,
}

/// One scrape: the body and where its families lie in it.
#[derive(Clone)]
pub struct Exposition {
    body: Bytes,
    families: Vec<Entry>,
    runs: Vec<Run>,
}

/// A family while it is read.
#[derive(Clone, Debug)]
struct Entry {
    name: (u32, u32),
    kind: Option<Kind>,
    has_help: bool,
    first_run: u32,
    last_run: u32,
}

/// Consecutive lines with samples of one family; the runs of a family are chained in order of exposition.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    end: u32,
    next: u32,
}

/// No run.
const NONE: u32 = u32::MAX;

impl Exposition {
    /// Checks `body` and finds its families.
    ///
    /// # Errors
    /// The first line that breaks the format.
    pub fn parse(body: Bytes) -> Result<Self, SyntaxError> {
        let mut reader = Reader::new(&body);
        match reader.read() {
            Ok(()) => {
                let Reader { families, runs, .. } = reader;
                Ok(Exposition { body, families, runs })
            }
            Err((at, reason)) => {
                let line = 1 + memchr::memchr_iter(b'\n', &body[..at.min(body.len())]).count();
                Err(SyntaxError { line, reason })
            }
        }
    }

    /// Returns the family `name`, `None` where it does not exist or has no sample.
    pub fn family(&self, name: &str) -> Option<Family<'_>> {
        let entry = self.families.iter().find(|entry| self.name(entry) == name.as_bytes())?;
        (entry.first_run != NONE).then_some(Family { exposition: self, entry })
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        &self.body[entry.name.0 as usize..entry.name.1 as usize]
    }
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.families.iter().map(|entry| String::from_utf8_lossy(self.name(entry)));
        f.debug_list().entries(names).finish()
    }
}

/// A family with at least one sample.
#[derive(Clone, Copy, Debug)]
pub struct Family<'a> {
    exposition: &'a Exposition,
    entry: &'a Entry,
}

impl<'a> Family<'a> {
    /// Returns the type.
    pub fn kind(&self) -> Kind {
        self.entry.kind.unwrap_or(Kind::Untyped)
    }

    /// Iterates over the samples in order of exposition.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'a>> + use<'a> {
        let (exposition, kind) = (self.exposition, self.kind());
        let mut run = self.entry.first_run;
        let mut rest: &'a [u8] = &[];
        std::iter::from_fn(move || {
            loop {
                if let Some((sample, tail)) = sample::decode(rest, kind) {
                    rest = tail;
                    return Some(sample);
                }
                let Run { start, end, next } = *exposition.runs.get(run as usize)?;
                rest = &exposition.body[start as usize..end as usize];
                run = next;
            }
        })
    }
}

/// Reads a body line by line.
struct Reader<'a> {
    body: &'a [u8],
    labels: KnownLabels<'a>,
    families: Vec<Entry>,
    runs: Vec<Run>,
    index: FxHashMap<&'a [u8], u32>,
    /// The name that was resolved last: the next line mostly starts with it, too.
    last_name: &'a [u8],
    last_family: u32,
}

/// Where in the body a line breaks the format, and how.
type Broken = (usize, Reason);

impl<'a> Reader<'a> {
    fn new(body: &'a [u8]) -> Self {
        Reader {
            body,
            labels: KnownLabels::of(body),
            families: Vec::with_capacity(64),
            runs: Vec::with_capacity(128),
            index: FxHashMap::with_capacity_and_hasher(128, Default::default()),
            last_name: &[],
            last_family: NONE,
        }
    }

    fn read(&mut self) -> Result<(), Broken> {
        if u32::try_from(self.body.len()).is_err() {
            return Err((0, Reason::TooLong));
        }
        let mut at = 0;
        loop {
            at = line::skip_blanks(self.body, at);
            at = match self.body.get(at) {
                None => return Ok(()),
                Some(b'\n') => at + 1,
                Some(b'#') => self.comment(at + 1)?,
                Some(_) => self.sample(at)?,
            };
        }
    }

    fn comment(&mut self, at: usize) -> Result<usize, Broken> {
        match line::comment(self.body, at)? {
            Comment::Other { next } => Ok(next),
            Comment::Help { name, next } => {
                let family = self.resolve(name.0, name.1);
                let entry = &mut self.families[family as usize];
                match next {
                    Some(_) if entry.has_help => Err((at, Reason::SecondHelp)),
                    Some(text) => {
                        entry.has_help = true;
                        line::help_text(self.body, text)
                    }
                    None => Ok(name.1),
                }
            }
            Comment::Type { name, word } => {
                let family = self.resolve(name.0, name.1);
                let Some((start, end)) = word else { return Ok(name.1) };
                let entry = &mut self.families[family as usize];
                if entry.kind.is_some() {
                    return Err((at, Reason::SecondType));
                }
                entry.kind = Some(line::kind(&self.body[start..end]).ok_or((at, Reason::UnknownType))?);
                Ok(end + 1)
            }
        }
    }

    fn sample(&mut self, at: usize) -> Result<usize, Broken> {
        let (name_end, family) = match self.last_name_at(at) {
            Some(name_end) => (name_end, self.last_family),
            None => {
                let name_end = line::metric_name(self.body, at);
                if name_end == at {
                    return Err((at, Reason::MetricName));
                }
                (name_end, self.resolve(at, name_end))
            }
        };
        let entry = &mut self.families[family as usize];
        let kind = *entry.kind.get_or_insert(Kind::Untyped);
        let next = line::sample(self.body, name_end, kind, &mut self.labels)?;
        self.note(family, at, next);
        Ok(next)
    }

    /// Returns the end of the metric name at `at` if it is the name of the line before, as it mostly is.
    fn last_name_at(&self, at: usize) -> Option<usize> {
        let end = at + self.last_name.len();
        let goes_on = self.body.get(end).is_some_and(|&byte| line::is_name(byte));
        (end > at && !goes_on && self.body[at..].starts_with(self.last_name)).then_some(end)
    }

    /// Returns the family that the name `start..end` belongs to, a new one where there is none.
    fn resolve(&mut self, start: usize, end: usize) -> u32 {
        let name = &self.body[start..end];
        if name == self.last_name {
            return self.last_family;
        }
        let family = match self.known(name) {
            Some(family) => family,
            None => {
                let family = self.families.len() as u32;
                self.families.push(Entry {
                    name: (start as u32, end as u32),
                    kind: None,
                    has_help: false,
                    first_run: NONE,
                    last_run: NONE,
                });
                self.index.insert(name, family);
                family
            }
        };
        self.last_name = name;
        self.last_family = family;
        family
    }

    /// A family of that name, or the summary or histogram of which the name is a part.
    fn known(&self, name: &[u8]) -> Option<u32> {
        if let Some(&family) = self.index.get(name) {
            return Some(family);
        }
        let part = |suffix: &[u8], kinds: &[Kind]| {
            let &family = self.index.get(name.strip_suffix(suffix)?)?;
            kinds.contains(&self.families[family as usize].kind?).then_some(family)
        };
        part(b"_bucket", &[Kind::Histogram])
            .or_else(|| part(b"_sum", &[Kind::Summary, Kind::Histogram]))
            .or_else(|| part(b"_count", &[Kind::Summary, Kind::Histogram]))
    }

    /// Notes that `start..end` is a sample of the family.
    fn note(&mut self, family: u32, start: usize, end: usize) {
        let here = self.runs.len() as u32;
        let entry = &mut self.families[family as usize];
        if entry.last_run != NONE && entry.last_run + 1 == here {
            // Blank lines and comments in between are skipped when the run is decoded.
            self.runs[entry.last_run as usize].end = end as u32;
            return;
        }
        match self.runs.get_mut(entry.last_run as usize) {
            Some(last) => last.next = here,
            None => entry.first_run = here,
        }
        entry.last_run = here;
        self.runs.push(Run { start: start as u32, end: end as u32, next: NONE });
    }
}

#[cfg(test)]
mod tests;
