//! The form of the file.

use std::collections::BTreeMap;

use super::LoadError;
use crate::config::problem::{Position, Problems};
use crate::config::yaml::{self, Content, Node};

/// One element of `endpoints`, not checked yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) at: Position,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) address: String,
    pub(super) port: String,
    pub(super) labels: BTreeMap<String, String>,
}

/// Reads the entries: unknown keys are passed over, keys match in any case, of equal ones the last counts, and
/// null is the empty value of anything.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Entry>, LoadError> {
    let mut problems = Problems::new(file);
    // A key that stands twice is reported, too, but the document is there.
    let Some(document) = yaml::parse(text, &mut problems) else {
        return Err(LoadError::Syntax(problems.to_string()));
    };
    let reader = Reader { file };
    match field(reader.mapping(&document)?, "endpoints").map(|node| (node, &node.content)) {
        None | Some((_, Content::Null)) => Ok(Vec::new()),
        Some((_, Content::List(items))) => items.iter().map(|item| reader.entry(item)).collect(),
        Some((node, _)) => Err(reader.mismatch(node, "a list of endpoints")),
    }
}

struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn mismatch(&self, node: &Node, expected: &str) -> LoadError {
        LoadError::Shape(format!("{}:{}: expected {expected}, found {}", self.file, node.at, node.describe()))
    }

    fn mapping<'n>(&self, node: &'n Node) -> Result<&'n [yaml::Entry], LoadError> {
        match &node.content {
            Content::Null => Ok(&[]),
            Content::Map(entries) => Ok(entries),
            _ => Err(self.mismatch(node, "a mapping")),
        }
    }

    fn text(&self, node: Option<&Node>) -> Result<String, LoadError> {
        match node.map(|node| (node, &node.content)) {
            None | Some((_, Content::Null)) => Ok(String::new()),
            Some((_, Content::Text(text))) => Ok(text.clone()),
            Some((node, _)) => Err(self.mismatch(node, "a text (quote it)")),
        }
    }

    fn entry(&self, node: &Node) -> Result<Entry, LoadError> {
        let fields = self.mapping(node)?;
        let labels =
            match field(fields, "labels") {
                None => BTreeMap::new(),
                Some(labels) => {
                    let labels = self.mapping(labels)?.iter();
                    labels
                        .map(|label| Ok((label.key.clone(), self.text(Some(&label.value))?)))
                        .collect::<Result<_, LoadError>>()?
                }
            };
        let text = |key| self.text(field(fields, key));
        Ok(Entry {
            at: node.at,
            name: text("name")?,
            namespace: text("namespace")?,
            address: text("address")?,
            port: text("port")?,
            labels,
        })
    }
}

fn field<'n>(fields: &'n [yaml::Entry], key: &str) -> Option<&'n Node> {
    fields.iter().rev().find(|entry| entry.key.eq_ignore_ascii_case(key)).map(|entry| &entry.value)
}
