//! From the events of the YAML parser to the tree.

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::{Content, Entry, MAX_ALIASED_NODES, MAX_DEPTH, Node, scalar, too_deep};
use crate::config::problem::{Position, Problems, Syntax};

/// The key that merges other mappings into its own.
const MERGE: &str = "<<";

/// Reads the first document of a YAML text.
pub(super) fn parse(text: &str, problems: &mut Problems) -> Option<Node> {
    let mut builder = Builder {
        parser: Parser::new_from_str(text),
        anchors: FxHashMap::default(),
        aliased: 0,
        depth: 0,
        problems,
    };
    builder.document().ok()
}

/// Reports where a second document of a YAML text begins, or why the text behind the first cannot be read; returns
/// `None` then.
pub(super) fn refuse_second_document(text: &str, problems: &mut Problems) -> Option<()> {
    let mut documents = 0;
    for next in Parser::new_from_str(text) {
        let (at, message) = match next {
            Ok((Event::DocumentStart(_), span)) if documents == 1 => {
                (position(&span.start), "a second document begins here; accepted: one".to_owned())
            }
            Ok((Event::DocumentStart(_), _)) => {
                documents += 1;
                continue;
            }
            Ok(_) => continue,
            Err(error) => (position(error.marker()), format!("not valid YAML: {}", error.info())),
        };
        problems.push(Syntax::BadSyntax, Some(at), "", message);
        return None;
    }
    Some(())
}

/// A mapping under construction.
type Entries = IndexMap<String, (Position, Node), FxBuildHasher>;

/// The problem was reported; nothing more can be read.
struct Torn;

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Finished nodes by anchor; a node that is still open is not in it.
    anchors: FxHashMap<usize, Node>,
    /// Nodes that aliases have added.
    aliased: usize,
    /// Collections open.
    depth: usize,
    problems: &'a mut Problems,
}

impl<'a> Builder<'a> {
    fn document(&mut self) -> Result<Node, Torn> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => {
                    return Ok(Node { at: Position::START, content: Content::Null });
                }
                // The rest of the text is not read: a broken later document is nobody's error.
                event => return self.node(event, span),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Torn> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(self.torn(&error)),
            None => Err(self.fail(None, "the text ends in the middle of a document")),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Torn> {
        let at = position(&span.start);
        let (anchor, content) = match event {
            Event::Alias(anchor) => return self.alias(anchor, at),
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, self.scalar(&text, style, tag.as_deref(), at)?)
            }
            Event::SequenceStart(anchor, _) => (anchor, self.list(at)?),
            Event::MappingStart(anchor, _) => (anchor, self.map(at)?),
            other => return Err(self.fail(Some(at), format!("unexpected {other:?}"))),
        };
        let node = Node { at, content };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    /// Copies the anchored node; the copy keeps the places of the original.
    fn alias(&mut self, anchor: usize, at: Position) -> Result<Node, Torn> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(self.fail(Some(at), "the alias stands inside the node that it names"));
        };
        self.aliased += node.size();
        if self.aliased > MAX_ALIASED_NODES {
            let message = format!("aliases add more than {MAX_ALIASED_NODES} nodes to the document");
            return Err(self.fail(Some(at), message));
        }
        if self.depth + node.depth() > MAX_DEPTH {
            too_deep(at, self.problems);
            return Err(Torn);
        }
        Ok(node.clone())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: Position,
    ) -> Result<Content, Torn> {
        let plain = style == ScalarStyle::Plain;
        let content = match tag {
            Some(tag) if tag.is_yaml_core_schema() => scalar::resolve_tagged(&tag.suffix, text, plain),
            None if plain => scalar::resolve(text),
            _ => Ok(Content::Text(text.to_owned())),
        };
        content.map_err(|why| self.fail(Some(at), why))
    }

    fn enter(&mut self, at: Position) -> Result<(), Torn> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            too_deep(at, self.problems);
            return Err(Torn);
        }
        Ok(())
    }

    fn list(&mut self, at: Position) -> Result<Content, Torn> {
        self.enter(at)?;
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => break,
                (event, span) => items.push(self.node(event, span)?),
            }
        }
        self.depth -= 1;
        Ok(Content::List(items))
    }

    fn map(&mut self, at: Position) -> Result<Content, Torn> {
        self.enter(at)?;
        let mut entries = Entries::default();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == MERGE);
            let key = self.node(event, span)?;
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            if merge {
                self.merge(&mut entries, value)?;
            } else {
                let at = key.at;
                let key = self.key(key)?;
                self.insert(&mut entries, key, at, value);
            }
        }
        self.depth -= 1;
        let entries = entries.into_iter().map(|(key, (at, value))| Entry { key, at, value });
        Ok(Content::Map(entries.collect()))
    }

    /// Adds an entry. A key that is there already is reported and its value replaced.
    fn insert(&mut self, entries: &mut Entries, key: String, at: Position, value: Node) {
        if let Some((first, _)) = entries.get(&key) {
            let message = format!("duplicate key \"{key}\", first given at {first}");
            self.problems.push(Syntax::DuplicateField, Some(at), key.clone(), message);
        }
        entries.insert(key, (at, value));
    }

    fn merge(&mut self, entries: &mut Entries, value: Node) -> Result<(), Torn> {
        match value.content {
            Content::Map(merged) => {
                merged.into_iter().for_each(|e| self.insert(entries, e.key, e.at, e.value));
                Ok(())
            }
            Content::List(maps) if maps.iter().all(|m| matches!(m.content, Content::Map(_))) => {
                // The first of a list counts most: it comes last.
                maps.into_iter().rev().try_for_each(|m| self.merge(entries, m))
            }
            _ => Err(self.fail(Some(value.at), "\"<<\" merges a mapping or a list of mappings")),
        }
    }

    /// Returns a key as text, as JSON needs it.
    fn key(&mut self, key: Node) -> Result<String, Torn> {
        match key.content {
            Content::Text(text) => Ok(text),
            Content::Number(number) => Ok(number.to_string()),
            Content::Bool(value) => Ok(value.to_string()),
            Content::Null | Content::List(_) | Content::Map(_) => {
                let message = format!("a key must be a text, a number or a boolean, not {}", key.describe());
                Err(self.fail(Some(key.at), message))
            }
        }
    }

    fn torn(&mut self, error: &ScanError) -> Torn {
        let at = position(error.marker());
        self.fail(Some(at), format!("not valid YAML: {}", error.info()))
    }

    fn fail(&mut self, at: Option<Position>, message: impl Into<String>) -> Torn {
        self.problems.push(Syntax::BadSyntax, at, "", message);
        Torn
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}
