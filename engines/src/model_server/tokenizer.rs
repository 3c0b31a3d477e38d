//! A small byte-level BPE tokenizer with a chat template, as the recorded servers had it.

use rustc_hash::FxHashMap;

use crate::engine::Token;

/// Tokens that stand for themselves, by id.
const SPECIAL: [&str; 3] = ["<|endoftext|>", START, END];

const START: &str = "<|im_start|>";
const END: &str = "<|im_end|>";

/// The id of the first of the 256 tokens of one byte, behind the special ones.
const FIRST_BYTE: Token = SPECIAL.len() as Token;

/// The id of the first token of several bytes.
const FIRST_MERGE: Token = FIRST_BYTE + 256;

/// The pairs that became tokens, in order: what BPE learns from the one sentence "the router routes a request to
/// the engine that holds its prefix".
#[rustfmt::skip]
const MERGES: [(&str, &str); 41] = [
    ("t", "h"), (" ", "r"), ("e", "s"), ("o", "u"), (" ", "th"), (" r", "ou"), (" rou", "t"), ("a", "t"), ("d", "s"),
    ("e", "f"), ("e", "n"), ("e", "q"), ("e", "r"), ("g", "i"), ("h", "o"), ("i", "t"), ("i", "x"), ("l", "ds"),
    ("n", "e"), ("p", "r"), ("t", "o"), ("u", "es"), (" ", "a"), (" ", "en"), (" ", "ho"), (" ", "it"), (" ", "pr"),
    (" ", "to"), ("th", "e"), (" r", "eq"), (" th", "e"), (" th", "at"), (" rout", "es"), (" rout", "er"),
    ("ef", "ix"), ("gi", "ne"), ("ues", "t"), (" en", "gine"), (" ho", "lds"), (" it", "s"), (" pr", "efix"),
];

/// Turns text into tokens and back: 3 special tokens, one a byte, 41 pieces of words.
///
/// Text costs about one token a byte, so that a prompt's length is easy to predict.
#[derive(Debug)]
pub struct Tokenizer {
    /// The token that two neighbours become; the smaller the token, the earlier the pair is merged.
    merges: FxHashMap<(Token, Token), Token>,
    /// The bytes of each token.
    bytes: Vec<Vec<u8>>,
}

/// A message as the chat template sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: String,
    /// What was said; parts are joined by line breaks.
    pub content: String,
}

/// What stands behind the last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The opening of the assistant's answer.
    GenerationPrompt,
    /// Nothing.
    Closed,
    /// The last message stays open, to be continued.
    Continue,
}

impl Tokenizer {
    /// End of sequence.
    pub const EOS: Token = 0;

    /// Number of tokens; the model's vocabulary is [`Tokenizer::VOCABULARY`].
    pub const TOKENS: Token = FIRST_MERGE + MERGES.len() as Token;

    /// Size of the model's vocabulary, padded; ids from here on are refused.
    pub const VOCABULARY: Token = 320;

    /// Characters of the longest token.
    pub const LONGEST: usize = SPECIAL[0].len();

    /// The tokens of word pieces: what a model without a will of its own writes.
    pub const WORDS: std::ops::Range<Token> = FIRST_MERGE..Self::TOKENS;

    /// Returns the tokenizer.
    #[must_use]
    pub fn new() -> Self {
        let mut bytes: Vec<Vec<u8>> = SPECIAL.iter().map(|text| text.as_bytes().to_vec()).collect();
        bytes.resize((FIRST_MERGE) as usize, Vec::new());
        for byte in 0..=255 {
            bytes[byte_token(byte) as usize] = vec![byte];
        }
        let mut ids: FxHashMap<Vec<u8>, Token> = FxHashMap::default();
        ids.extend((FIRST_BYTE..).zip(&bytes[FIRST_BYTE as usize..]).map(|(id, bytes)| (bytes.clone(), id)));
        let mut merges = FxHashMap::default();
        for (id, (left, right)) in (FIRST_MERGE..).zip(MERGES) {
            merges.insert((ids[left.as_bytes()], ids[right.as_bytes()]), id);
            let piece = [left.as_bytes(), right.as_bytes()].concat();
            ids.insert(piece.clone(), id);
            bytes.push(piece);
        }
        Self { merges, bytes }
    }

    /// Returns the tokens of `text`; the texts of special tokens in it become these.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((place, special)) = next_special(rest) {
            self.encode_plain(&rest[..place], &mut tokens);
            tokens.push(special);
            rest = &rest[place + SPECIAL[special as usize].len()..];
        }
        self.encode_plain(rest, &mut tokens);
        tokens
    }

    /// Returns the tokens of a conversation.
    #[must_use]
    pub fn encode_chat(&self, messages: &[Message], ending: Ending) -> Vec<Token> {
        let mut text = String::new();
        for (place, Message { role, content }) in messages.iter().enumerate() {
            text.extend([START, role, "\n", content]);
            if ending != Ending::Continue || place + 1 < messages.len() {
                text.extend([END, "\n"]);
            }
        }
        if ending == Ending::GenerationPrompt {
            text.extend([START, "assistant\n"]);
        }
        self.encode(&text)
    }

    /// Returns the bytes of a token, none for ids that are no token.
    #[must_use]
    pub fn bytes(&self, token: Token) -> &[u8] {
        self.bytes.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns a token as the vocabulary writes it: each byte one visible character, special tokens as they are.
    #[must_use]
    pub fn piece(&self, token: Token) -> String {
        let visible = |byte: &u8| match byte_token(*byte) - FIRST_BYTE {
            rank if rank < 188 => char::from(*byte),
            rank => char::from_u32(256 + rank - 188).unwrap_or(char::REPLACEMENT_CHARACTER),
        };
        match Self::is_special(token) {
            true => SPECIAL[token as usize].to_owned(),
            false => self.bytes(token).iter().map(visible).collect(),
        }
    }

    /// Returns the text of `tokens`, special ones included; bytes that form no character become U+FFFD.
    #[must_use]
    pub fn decode(&self, tokens: &[Token]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| self.bytes(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns whether a token is left out of generated text.
    #[must_use]
    pub fn is_special(token: Token) -> bool {
        token < FIRST_BYTE
    }

    fn encode_plain(&self, text: &str, tokens: &mut Vec<Token>) {
        for word in Words(text) {
            let start = tokens.len();
            tokens.extend(word.bytes().map(byte_token));
            self.merge(tokens, start);
        }
    }

    /// Merges neighbours in `tokens[start..]`, the pair learned first first, until no pair is left.
    fn merge(&self, tokens: &mut Vec<Token>, start: usize) {
        loop {
            let pairs = tokens[start..].windows(2).enumerate();
            let found = pairs.filter_map(|(i, pair)| Some((*self.merges.get(&(pair[0], pair[1]))?, i))).min();
            let Some((merged, _)) = found else { return };
            // All places of this pair, from the left.
            let (mut read, mut write) = (start, start);
            while read < tokens.len() {
                let pair = tokens.get(read + 1).map(|next| (tokens[read], *next));
                let token = match pair.and_then(|pair| self.merges.get(&pair)) {
                    Some(token) if *token == merged => {
                        read += 1;
                        merged
                    }
                    _ => tokens[read],
                };
                tokens[write] = token;
                read += 1;
                write += 1;
            }
            tokens.truncate(write);
        }
    }
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self::new()
    }
}

/// The token of one byte: printable Latin-1 first, in order, then the others, in order.
const fn byte_token(byte: u8) -> Token {
    let rank = match byte {
        0x21..=0x7e => byte - 0x21,
        0xa1..=0xac => byte - 0xa1 + 94,
        0xae..=0xff => byte - 0xae + 106,
        0x00..=0x20 => byte + 188,
        0x7f..=0xa0 => byte - 0x7f + 221,
        0xad => 255,
    };
    FIRST_BYTE + rank as Token
}

/// The first special token in `text`, and where.
fn next_special(text: &str) -> Option<(usize, Token)> {
    let at = |(id, special): (Token, &&str)| Some((text.find(*special)?, id));
    (0..).zip(&SPECIAL).filter_map(at).min()
}

/// The pieces of a text within which bytes merge: an English contraction; a run of letters, of digits or of other
/// signs, each with at most one space before it; white space, but for its last character where a word follows.
struct Words<'a>(&'a str);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Space,
    Sign,
}

fn kind(c: char) -> Kind {
    match c {
        _ if c.is_whitespace() => Kind::Space,
        _ if c.is_alphabetic() => Kind::Letter,
        _ if c.is_numeric() => Kind::Digit,
        _ => Kind::Sign,
    }
}

/// The bytes of the run of `wanted` characters that `text` begins with.
fn run(text: &str, wanted: Kind) -> usize {
    text.find(|c| kind(c) != wanted).unwrap_or(text.len())
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let first = self.0.chars().next()?;
        let contraction =
            ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"].iter().find(|c| self.0.starts_with(**c));
        let behind_space = self.0.strip_prefix(' ').and_then(|rest| Some((rest, kind(rest.chars().next()?))));
        let end = match (contraction, behind_space) {
            (Some(contraction), _) => contraction.len(),
            (None, Some((rest, next))) if next != Kind::Space => 1 + run(rest, next),
            _ if kind(first) == Kind::Space => {
                let all = run(self.0, Kind::Space);
                let last = self.0[..all].chars().next_back().map_or(0, char::len_utf8);
                match all == self.0.len() || all == last {
                    true => all,
                    false => all - last,
                }
            }
            _ => run(self.0, kind(first)),
        };
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts and the tokens that the tokenizer of the recorded servers makes of them.
    const ENCODED: [(&str, &[Token]); 13] = [
        ("", &[]),
        ("abc", &[67, 68, 69]),
        ("the router \u{e9}", &[287, 292, 223, 130, 105]),
        ("it'll", &[274, 9, 78, 78]),
        ("\u{65e5}\u{672c} x", &[165, 248, 101, 165, 253, 108, 223, 90]),
        ("requests' holds", &[84, 270, 295, 85, 9, 297]),
        ("x<|im_end|>y", &[90, 2, 91]),
        ("\n \n a", &[201, 223, 201, 281]),
        ("routerrouter", &[84, 262, 86, 271, 84, 262, 86, 271]),
        ("theengine", &[287, 269, 294]),
        ("10th _x_ --", &[19, 18, 259, 223, 65, 90, 65, 223, 15, 15]),
        ("holds  ", &[273, 276, 223, 223]),
        (
            "  two  spaces\n\nand it's 12 routes!",
            &[
                223, 223, 86, 89, 81, 223, 223, 85, 82, 67, 69, 261, 201, 201, 67, 80, 70, 284, 9, 85, 223,
                19, 20, 291, 3,
            ],
        ),
    ];

    #[test]
    fn encodes_as_the_recorded_servers() {
        let tokenizer = Tokenizer::new();
        for (text, tokens) in ENCODED {
            assert_eq!(tokenizer.encode(text), tokens, "{text:?}");
            assert_eq!(tokenizer.decode(tokens), text);
        }
        assert_eq!(tokenizer.decode(&[67, 289, 292, 999]), "a the router");
    }

    #[test]
    fn a_conversation_is_framed_by_the_template() {
        let tokenizer = Tokenizer::new();
        let say = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
        let asked = tokenizer.encode_chat(&[say("user", "abc")], Ending::GenerationPrompt);
        let opening = [1, 67, 85, 85, 75, 85, 86, 67, 80, 86, 201];
        assert_eq!(asked, [&[1, 87, 85, 271, 201, 67, 68, 69, 2, 201][..], &opening].concat());
        let turns = [say("user", "ab"), say("assistant", "cd")];
        let open = tokenizer.encode_chat(&turns, Ending::Continue);
        assert_eq!(open, [&[1, 87, 85, 271, 201, 67, 68, 2, 201][..], &opening, &[69, 70]].concat());
        let closed = tokenizer.encode_chat(&turns, Ending::Closed);
        assert_eq!(closed, [&open[..], &[2, 201]].concat());
    }

    #[test]
    fn pieces_are_written_in_visible_characters() {
        let tokenizer = Tokenizer::new();
        let pieces = [1, 67, 201, 289, 999].map(|token| tokenizer.piece(token));
        assert_eq!(pieces, ["<|im_start|>", "a", "\u{10a}", "\u{120}the", ""]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_comes_back(text in "\\PC*( |\n|the|routes|'s|\\PC)*") {
            let tokenizer = Tokenizer::new();
            let tokens = tokenizer.encode(&text);
            proptest::prop_assert!(tokens.iter().all(|token| *token < Tokenizer::TOKENS));
            proptest::prop_assert_eq!(tokenizer.decode(&tokens), text);
        }
    }
}
