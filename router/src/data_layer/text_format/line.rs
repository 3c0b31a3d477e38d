//! The grammar of one line.

use rustc_hash::FxHashSet;

use super::{Broken, Kind, Reason};

/// Byte classes of the format.
const NAME: u8 = 1;
const NAME_START: u8 = 2;
const LABEL: u8 = 4;
const LABEL_START: u8 = 8;

static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        classes[byte] = match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => NAME | NAME_START | LABEL | LABEL_START,
            b':' => NAME | NAME_START,
            b'0'..=b'9' => NAME | LABEL,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

/// Returns whether a metric name may go on with `byte`.
pub(super) fn is_name(byte: u8) -> bool {
    class(byte) & NAME != 0
}

/// Returns the first position from `at` whose byte is neither blank nor tab.
pub(super) fn skip_blanks(body: &[u8], mut at: usize) -> usize {
    while matches!(body.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

fn run(body: &[u8], at: usize, start: u8, rest: u8) -> usize {
    let mut end = at;
    if body.get(end).is_some_and(|&byte| class(byte) & start != 0) {
        end += 1;
        while body.get(end).is_some_and(|&byte| class(byte) & rest != 0) {
            end += 1;
        }
    }
    end
}

/// Returns the end of the metric name at `at`; `at` itself where there is none.
pub(super) fn metric_name(body: &[u8], at: usize) -> usize {
    run(body, at, NAME_START, NAME)
}

/// Returns the end of the label name at `at`; `at` itself where there is none.
pub(super) fn label_name(body: &[u8], at: usize) -> usize {
    run(body, at, LABEL_START, LABEL)
}

/// Returns the end of the token at `at`: the next blank, tab or newline.
fn token(body: &[u8], at: usize) -> Result<usize, Broken> {
    let mut end = at;
    loop {
        match body.get(end) {
            None => return Err((at, Reason::EndOfInput)),
            Some(b' ' | b'\t' | b'\n') => return Ok(end),
            Some(_) => end += 1,
        }
    }
}

fn newline(body: &[u8], at: usize) -> Result<usize, Broken> {
    match memchr::memchr(b'\n', &body[at.min(body.len())..]) {
        Some(offset) => Ok(at + offset),
        None => Err((at, Reason::EndOfInput)),
    }
}

/// A line that starts with `#`. `next` is the position at which the reader goes on.
#[derive(Debug)]
pub(super) enum Comment {
    /// Says nothing.
    Other { next: usize },
    /// `HELP name text`; without a text `next` is `None`.
    Help { name: (usize, usize), next: Option<usize> },
    /// `TYPE name word`; the word goes to the end of the line.
    Type { name: (usize, usize), word: Option<(usize, usize)> },
}

/// Reads the comment whose `#` stands before `at`.
pub(super) fn comment(body: &[u8], at: usize) -> Result<Comment, Broken> {
    let start = skip_blanks(body, at);
    let end = token(body, start)?;
    let keyword = &body[start..end];
    let name_start = skip_blanks(body, end);
    if !matches!(keyword, b"HELP" | b"TYPE") || body.get(name_start) == Some(&b'\n') {
        return Ok(Comment::Other { next: newline(body, name_start)? + 1 });
    }
    let name = (name_start, metric_name(body, name_start));
    match body.get(name.1) {
        None => return Err((at, Reason::EndOfInput)),
        Some(b'\n') if name.1 > name.0 => return Ok(Comment::Other { next: name.1 + 1 }),
        Some(b' ' | b'\t') if name.1 > name.0 => {}
        Some(_) => return Err((at, Reason::CommentName)),
    }
    let text = skip_blanks(body, name.1);
    let has_text = body.get(text).is_some_and(|&byte| byte != b'\n');
    // Without a text the reader goes on behind the name: blanks, then the newline.
    Ok(if keyword == b"HELP" {
        Comment::Help { name, next: has_text.then_some(text) }
    } else {
        let word = if has_text { Some((text, newline(body, text)?)) } else { None };
        Comment::Type { name, word }
    })
}

/// Checks a help text and returns the start of the next line.
pub(super) fn help_text(body: &[u8], mut at: usize) -> Result<usize, Broken> {
    loop {
        let Some(offset) = memchr::memchr2(b'\n', b'\\', &body[at..]) else {
            return Err((at, Reason::EndOfInput));
        };
        at += offset;
        if body[at] == b'\n' {
            return Ok(at + 1);
        }
        match body.get(at + 1) {
            None => return Err((at, Reason::EndOfInput)),
            Some(b'\\' | b'n' | b'"') => at += 2,
            Some(_) => return Err((at, Reason::HelpEscape)),
        }
    }
}

/// Returns the type that `word` names, in any case.
pub(super) fn kind(word: &[u8]) -> Option<Kind> {
    const WORDS: [(&str, Kind); 6] = [
        ("gauge", Kind::Gauge),
        ("counter", Kind::Counter),
        ("histogram", Kind::Histogram),
        ("summary", Kind::Summary),
        ("untyped", Kind::Untyped),
        ("gauge_histogram", Kind::Histogram),
    ];
    WORDS.iter().find(|(text, _)| word.eq_ignore_ascii_case(text.as_bytes())).map(|&(_, kind)| kind)
}

/// Checks the rest of a sample of a family of type `kind` behind its name and returns the start of the next line.
pub(super) fn sample<'a>(
    body: &'a [u8],
    name_end: usize,
    kind: Kind,
    known: &mut KnownLabels<'a>,
) -> Result<usize, Broken> {
    let mut at = skip_blanks(body, name_end);
    if body.get(at) == Some(&b'{') {
        at = skip_blanks(body, known.check(body, at + 1, kind)? + 1);
    }
    let value = (at, token(body, at)?);
    if !is_number(&body[value.0..value.1]) {
        return Err((at, Reason::Value));
    }
    if body[value.1] == b'\n' {
        return Ok(value.1 + 1);
    }
    let start = skip_blanks(body, value.1);
    let end = token(body, start)?;
    if integer(&body[start..end]).is_none() {
        return Err((start, Reason::Timestamp));
    }
    if body[end] != b'\n' {
        return Err((end, Reason::AfterTimestamp));
    }
    Ok(end + 1)
}

/// The labels of the line before: most lines have the same names and differ in one value, and what is written
/// as it was there needs no second look.
#[derive(Debug, Default)]
pub(super) struct KnownLabels<'a> {
    kind: Option<Kind>,
    labels: Vec<Label<'a>>,
    /// Which label was written differently last: the next line mostly differs there, too.
    differs: usize,
    /// Names of the present line, where it has so many that comparing them all would take long.
    many: FxHashSet<&'a [u8]>,
    /// The body is ASCII, so no value needs a look at its encoding.
    ascii: bool,
}

/// A label that was checked.
#[derive(Clone, Copy, Debug)]
struct Label<'a> {
    name: &'a [u8],
    /// Name, value and the comma or brace behind it, as they are written.
    text: &'a [u8],
}

/// From this number of labels on their names are hashed instead of compared.
const MANY: usize = 64;

impl<'a> KnownLabels<'a> {
    /// Returns what is known before the first line of `body`.
    pub(super) fn of(body: &[u8]) -> Self {
        KnownLabels { ascii: body.is_ascii(), ..KnownLabels::default() }
    }

    /// Checks the labels from `at`, behind the `{`, and returns the position of the `}`.
    fn check(&mut self, body: &'a [u8], mut at: usize, kind: Kind) -> Result<usize, Broken> {
        if self.kind.replace(kind) != Some(kind) {
            self.labels.clear();
        }
        // As long as all names are those of the line before, they need no check for duplicates.
        let mut same_names = true;
        let mut index = 0;
        loop {
            at = skip_blanks(body, at);
            if body.get(at) == Some(&b'}') {
                self.labels.truncate(index);
                return Ok(at);
            }
            let before = if same_names { self.labels.get(index).copied() } else { None };
            let label = match before {
                Some(label) if index != self.differs && body[at..].starts_with(label.text) => label,
                _ => {
                    let label = self.label(body, at, kind)?;
                    self.differs = index;
                    if before.is_none_or(|before| before.name != label.name) {
                        same_names = false;
                        self.labels.truncate(index);
                        if self.is_duplicate(label.name) {
                            return Err((at, Reason::DuplicateLabel));
                        }
                        self.labels.push(label);
                    } else {
                        self.labels[index] = label;
                    }
                    label
                }
            };
            at += label.text.len();
            index += 1;
            if label.text.ends_with(b"}") {
                self.labels.truncate(index);
                return Ok(at - 1);
            }
        }
    }

    /// Whether one of the labels so far has that name.
    fn is_duplicate(&mut self, name: &'a [u8]) -> bool {
        match self.labels.len() {
            ..MANY => self.labels.iter().any(|label| label.name == name),
            MANY => {
                self.many.clear();
                self.many.extend(self.labels.iter().map(|label| label.name));
                !self.many.insert(name)
            }
            _ => !self.many.insert(name),
        }
    }

    /// Checks one label.
    fn label(&self, body: &'a [u8], start: usize, kind: Kind) -> Result<Label<'a>, Broken> {
        let name = &body[start..label_name(body, start)];
        if name.is_empty() {
            return Err((start, if start < body.len() { Reason::LabelName } else { Reason::EndOfInput }));
        }
        if name == b"__name__" {
            return Err((start, Reason::ReservedLabel));
        }
        let mut at = skip_blanks(body, start + name.len());
        if body.get(at) != Some(&b'=') {
            return Err((at, Reason::Equals));
        }
        at = skip_blanks(body, at + 1);
        if body.get(at) != Some(&b'"') {
            return Err((at, Reason::Quote));
        }
        let value = at + 1;
        at = label_value(body, value)?;
        self.check_value(&body[value..at], name, kind).map_err(|reason| (value, reason))?;
        at = skip_blanks(body, at + 1);
        match body.get(at) {
            Some(b',' | b'}') => Ok(Label { name, text: &body[start..=at] }),
            Some(_) => Err((at, Reason::AfterLabel)),
            None => Err((at, Reason::EndOfInput)),
        }
    }

    fn check_value(&self, value: &[u8], name: &[u8], kind: Kind) -> Result<(), Reason> {
        if !self.ascii && std::str::from_utf8(value).is_err() {
            return Err(Reason::LabelValue);
        }
        let bound = match kind {
            Kind::Histogram => name == b"le",
            Kind::Summary => name == b"quantile",
            _ => false,
        };
        if bound && !is_number(value) { Err(Reason::Bound) } else { Ok(()) }
    }
}

/// Returns the position of the quote that ends the value at `at`.
fn label_value(body: &[u8], mut at: usize) -> Result<usize, Broken> {
    loop {
        match body.get(at) {
            None => return Err((at, Reason::EndOfInput)),
            Some(b'"') => return Ok(at),
            Some(b'\n') => return Err((at, Reason::LabelValue)),
            Some(b'\\') => match body.get(at + 1) {
                Some(b'\\' | b'n' | b'"') => at += 2,
                _ => return Err((at, Reason::LabelValue)),
            },
            Some(_) => at += 1,
        }
    }
}

/// The parts of an accepted sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    /// What is between the braces.
    pub(super) labels: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) timestamp: Option<&'a [u8]>,
    /// The lines below.
    pub(super) rest: &'a [u8],
}

/// Splits the sample that `lines` start with, which [`sample`] has accepted.
pub(super) fn parts(lines: &[u8]) -> Option<Parts<'_>> {
    let mut at = skip_blanks(lines, metric_name(lines, 0));
    let mut labels: &[u8] = &[];
    if lines.get(at) == Some(&b'{') {
        let mut end = at + 1;
        while lines.get(skip_blanks(lines, end)) != Some(&b'}') {
            let (_, _, next) = pair(lines, end)?;
            // Behind a comma stands the next label or, again, the brace.
            end = if lines.get(next) == Some(&b',') { next + 1 } else { next };
        }
        end = skip_blanks(lines, end);
        labels = &lines[at + 1..end];
        at = skip_blanks(lines, end + 1);
    }
    let value_end = token(lines, at).ok()?;
    let stamp = skip_blanks(lines, value_end);
    let stamp_end = token(lines, stamp).ok()?;
    Some(Parts {
        labels,
        value: &lines[at..value_end],
        timestamp: (stamp_end > stamp).then(|| &lines[stamp..stamp_end]),
        rest: &lines[stamp_end + 1..],
    })
}

/// Splits the label at `at` into name and value; the third is the position of what stands behind it.
fn pair(block: &[u8], at: usize) -> Option<(&[u8], &[u8], usize)> {
    let start = skip_blanks(block, at);
    let end = label_name(block, start);
    let value = skip_blanks(block, skip_blanks(block, end) + 1) + 1;
    let value_end = label_value(block, value).ok()?;
    Some((&block[start..end], &block[value..value_end], skip_blanks(block, value_end + 1)))
}

/// Iterates over the labels of an accepted block: name and value as it is written.
pub(super) fn pairs(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (name, value, next) = pair(block, at)?;
        at = next + 1;
        Some((name, value))
    })
}

/// Reads a number as Prometheus writes it: decimal, or `nan`, `inf`, `infinity` in any case.
pub(super) fn number(token: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(token).ok()?;
    let value: f64 = text.parse().ok()?;
    let digits = text.trim_start_matches(['+', '-']);
    match digits.as_bytes().first()? {
        b'n' | b'N' => (digits.len() == text.len()).then_some(value),
        b'i' | b'I' => Some(value),
        _ => value.is_finite().then_some(value),
    }
}

/// Returns whether [`number`] reads the token. Decides the plain forms without computing the value.
fn is_number(token: &[u8]) -> bool {
    let digits = match token {
        [b'+' | b'-', rest @ ..] => rest,
        _ => token,
    };
    let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fraction = match &digits[whole..] {
        [] => return (1..=300).contains(&whole),
        [b'.', fraction @ ..] => fraction,
        _ => return number(token).is_some(),
    };
    if whole > 0 && whole <= 300 && fraction.iter().all(u8::is_ascii_digit) {
        return true;
    }
    number(token).is_some()
}

/// Reads a 64-bit integer with an optional sign.
pub(super) fn integer(token: &[u8]) -> Option<i64> {
    std::str::from_utf8(token).ok()?.parse().ok()
}
