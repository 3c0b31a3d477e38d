//! Samples, decoded.

use std::borrow::Cow;

use super::{Kind, line};

/// One sample of a family.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Its labels.
    pub labels: Labels<'a>,
    /// Its value.
    pub value: f64,
    /// Its timestamp in milliseconds, where it has one.
    pub timestamp: Option<i64>,
}

/// The labels of a sample. The bound of a histogram's bucket and of a summary's quantile is not one of them.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    block: &'a [u8],
    bound: &'static [u8],
}

impl<'a> Labels<'a> {
    /// Returns the value of the label `name`.
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        if name.as_bytes() == self.bound {
            return None;
        }
        line::pairs(self.block).find(|(n, _)| *n == name.as_bytes()).map(|(_, value)| unescape(value))
    }
}

fn unescape(value: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(value);
    if !text.contains('\\') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped })),
            _ => plain.push(c),
        }
    }
    plain.into()
}

/// Decodes the first sample of a run of accepted lines and returns it with the lines behind it.
pub(super) fn decode(mut run: &[u8], kind: Kind) -> Option<(Sample<'_>, &[u8])> {
    loop {
        let at = line::skip_blanks(run, 0);
        match run.get(at)? {
            b'\n' => run = &run[at + 1..],
            b'#' => run = &run[memchr::memchr(b'\n', run)? + 1..],
            _ => {
                let parts = line::parts(&run[at..])?;
                let bound: &[u8] = match kind {
                    Kind::Histogram => b"le",
                    Kind::Summary => b"quantile",
                    _ => b"",
                };
                let sample = Sample {
                    labels: Labels { block: parts.labels, bound },
                    value: line::number(parts.value)?,
                    timestamp: parts.timestamp.and_then(line::integer),
                };
                return Some((sample, parts.rest));
            }
        }
    }
}
