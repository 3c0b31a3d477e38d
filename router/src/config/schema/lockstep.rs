//! `lockstep`: the one section that the llm-d Router does not have. Whatever is an option of our own lives here.

use super::super::decode::{Cursor, Decode, Fields};
use super::super::problem::Problems;
use super::super::shape::Shape;
use super::super::yaml::Content;

/// The section `lockstep`; absent = the llm-d Router's behaviour everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockstepConfig {
    /// Where to depart from the llm-d Router.
    pub compat: Compat,
}

/// Behaviours of the llm-d Router that hurt its users, each kept or mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compat {
    /// Dispatch, expiry and promotion in flow control (flow-control spec 17).
    pub flow_control: Behavior,
    /// Stored blocks of KV events that name a cache group without its kind, as vLLM 0.21 sends them
    /// (request-control spec, KV events).
    pub kv_events: Behavior,
}

/// Which form of a behaviour runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behavior {
    /// `parity`: as the llm-d Router does it.
    #[default]
    Parity,
    /// `fixed`: the sensible form.
    Fixed,
}

impl Decode for LockstepConfig {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| LockstepConfig { compat: f.or_default("compat") })
    }
}

impl Decode for Compat {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| Compat {
            flow_control: f.or_default("flowControl"),
            kv_events: f.or_default("kvEvents"),
        })
    }
}

impl Decode for Behavior {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match &cursor.node.content {
            Content::Text(text) if text == "parity" => Some(Behavior::Parity),
            Content::Text(text) if text == "fixed" => Some(Behavior::Fixed),
            Content::Text(text) => {
                cursor.refuse(format!("{text:?} is unknown; accepted: parity, fixed"), problems);
                None
            }
            _ => {
                cursor.mismatch("parity or fixed", problems);
                None
            }
        }
    }

    fn shape() -> Shape {
        Shape::Choice(vec!["parity", "fixed"])
    }
}
