//! Tokens of one choice as text: characters that are complete, without what a stop string may still cut.

use crate::engine::Token;

use super::tokenizer::Tokenizer;

/// Where generated text ends by its own content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Texts that end a choice; the first of the list that has appeared counts.
    pub strings: Vec<String>,
    /// What ended the choice stays in its text.
    pub include: bool,
    /// Output tokens below which no text ends the choice.
    pub min_tokens: u32,
    /// Special tokens leave no text.
    pub skip_special: bool,
}

impl Stops {
    /// Bytes at the end of the text that a stop string may still cut off.
    fn held_back(&self) -> usize {
        match self.include {
            true => 0,
            false => {
                self.strings.iter().map(|stop| stop.chars().count()).max().unwrap_or(0).saturating_sub(1)
            }
        }
    }
}

/// The text of a choice as it grows (model-server spec 1.3).
#[derive(Debug)]
pub struct Text {
    stops: Stops,
    held_back: usize,
    /// Bytes behind the last complete character.
    pending: Vec<u8>,
    text: String,
    /// Bytes of `text` that were handed out.
    sent: usize,
    tokens: u32,
}

impl Text {
    /// Returns an empty text.
    #[must_use]
    pub fn new(stops: Stops) -> Self {
        let held_back = stops.held_back();
        Self { stops, held_back, pending: Vec::new(), text: String::new(), sent: 0, tokens: 0 }
    }

    /// Adds a token; returns the place in [`Stops::strings`] of the stop string that it completed, at which the
    /// text has then been cut.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: Token) -> Option<usize> {
        self.tokens += 1;
        if self.stops.skip_special && Tokenizer::is_special(token) {
            return None;
        }
        let before = self.text.len();
        self.pending.extend_from_slice(tokenizer.bytes(token));
        if ends_with_a_character(&self.pending) {
            self.text.push_str(&String::from_utf8_lossy(&self.pending));
            self.pending.clear();
        }
        if self.text.len() == before || self.tokens <= self.stops.min_tokens {
            return None;
        }
        self.cut(before)
    }

    /// Counts a token that ended the choice, whose text is not shown.
    pub fn skip(&mut self) {
        self.tokens += 1;
    }

    /// Cuts at the first stop string of the list that ends behind `before`.
    fn cut(&mut self, before: usize) -> Option<usize> {
        for (place, stop) in self.stops.strings.iter().enumerate() {
            let mut from = (before + 1).saturating_sub(stop.len());
            while !self.text.is_char_boundary(from) {
                from -= 1;
            }
            if let Some(found) = self.text[from..].find(stop.as_str()) {
                let start = from + found;
                self.text.truncate(if self.stops.include { start + stop.len() } else { start });
                return Some(place);
            }
        }
        None
    }

    /// Returns the text that can be shown now and was not yet; at the end, all of it.
    pub fn take(&mut self, end: bool) -> &str {
        let shown = match end {
            true => self.text.len(),
            false => {
                let mut held = self.text.char_indices().rev().map(|(place, _)| place);
                let cut = self.held_back.checked_sub(1).map(|last| held.nth(last).unwrap_or(0));
                cut.unwrap_or(self.text.len()).max(self.sent)
            }
        };
        // A stop string may have cut text that was shown before, where the minimum of tokens kept it from counting.
        let from = std::mem::replace(&mut self.sent, shown).min(shown);
        &self.text[from..shown]
    }

    /// Returns the tokens so far.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }
}

/// Whether the last bytes are a whole character, other than the one that stands for broken bytes.
fn ends_with_a_character(bytes: &[u8]) -> bool {
    (1..=bytes.len().min(4)).any(|length| {
        let last = std::str::from_utf8(&bytes[bytes.len() - length..]);
        last.is_ok_and(|last| !last.ends_with('\u{fffd}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops(strings: &[&str]) -> Stops {
        Stops {
            strings: strings.iter().map(|s| (*s).to_owned()).collect(),
            skip_special: true,
            ..Stops::default()
        }
    }

    /// Pushes tokens; returns what was shown after each, and the stop string at which it ended.
    fn shown(stops: Stops, tokens: &[Token]) -> (Vec<String>, Option<usize>) {
        let tokenizer = Tokenizer::new();
        let mut text = Text::new(stops);
        let mut shown = Vec::new();
        for (place, token) in tokens.iter().enumerate() {
            let stop = text.push(&tokenizer, *token);
            shown.push(text.take(stop.is_some() || place + 1 == tokens.len()).to_owned());
            if stop.is_some() {
                return (shown, stop);
            }
        }
        (shown, None)
    }

    #[test]
    fn a_stop_string_is_held_back_and_cut() {
        assert_eq!(shown(stops(&["aa"]), &[67, 67, 67]), (vec![String::new(), String::new()], Some(0)));
        // The text that only might have been a stop string comes later.
        let (texts, stop) = shown(stops(&["abd"]), &[67, 68, 69, 67]);
        assert_eq!((texts, stop), (vec!["".into(), "".into(), "a".into(), "bca".into()], None));
        let include = Stops { include: true, ..stops(&["zz", "aaa"]) };
        assert_eq!(shown(include, &[67, 67, 67]), (vec!["a".into(), "a".into(), "a".into()], Some(1)));
    }

    #[test]
    fn a_stop_string_counts_only_above_min_tokens() {
        let late = Stops { min_tokens: 2, ..stops(&["aa"]) };
        assert_eq!(shown(late, &[67, 67, 67, 67]).0.len(), 3);
    }

    #[test]
    fn bytes_that_complete_no_character_are_held_back() {
        // C3 C3 C3 as recorded; then C3 A9, and a byte that breaks a character off.
        assert_eq!(shown(stops(&[]), &[130, 130, 130]).0, ["", "", ""]);
        assert_eq!(shown(stops(&[]), &[130, 105, 67]).0, ["", "\u{e9}", "a"]);
        assert_eq!(shown(stops(&[]), &[130, 67]).0, ["", "\u{fffd}a"]);
    }

    #[test]
    fn special_tokens_leave_no_text() {
        assert_eq!(shown(stops(&[]), &[67, 1, 67]).0, ["a", "", "a"]);
        let all = Stops { skip_special: false, ..stops(&[]) };
        assert_eq!(shown(all, &[67, 2]).0, ["a", "<|im_end|>"]);
    }
}
