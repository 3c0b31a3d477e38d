use std::ops::RangeInclusive;

use router::config::decode::{Decode, Fields};
use router::config::problem::{Located, Position};
use router::config::yaml::Content;

use crate::InputError;

/// Returns a field that must be there; reports where it is not, or is wrong.
pub(super) fn expected<T: Decode>(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<T> {
    if is_given(fields, key) { fields.optional(key) } else { None }
}

/// Returns whether a field that must be there is; reports where it is not.
fn is_given(fields: &mut Fields<'_, '_>, key: &'static str) -> bool {
    let given = fields.node(key).is_some_and(|node| node.content != Content::Null);
    if !given {
        // Says that the field is missing; of what type it would be does not matter.
        fields.required::<String>(key);
    }
    given
}

/// Returns a whole number within `range`; reports another value.
pub(super) fn whole(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    range: RangeInclusive<u32>,
) -> Option<Located<u32>> {
    let number = fields.optional::<Located<u64>>(key)?;
    match u32::try_from(number.value) {
        Ok(value) if range.contains(&value) => Some(number.with(value)),
        _ => {
            let (least, most) = range.into_inner();
            let found = number.value;
            let message = format!("{found} is out of range; accepted: a whole number from {least} to {most}");
            fields.refuse(number.at, number.path, message);
            None
        }
    }
}

/// Returns a whole number within `range` that must be there.
pub(super) fn expected_whole(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    range: RangeInclusive<u32>,
) -> Option<Located<u32>> {
    if is_given(fields, key) { whole(fields, key, range) } else { None }
}

/// Reports `error`, which names one of `keys`, at that key's value.
pub(super) fn refuse_input(fields: &mut Fields<'_, '_>, keys: &[&'static str], error: &InputError) {
    let named = keys.iter().find(|key| error.place().field.as_deref() == Some(**key));
    let place: (Option<Position>, String) = match named.and_then(|key| fields.node(key)) {
        Some(node) => (node.at, node.path),
        None => {
            let place = fields.place();
            (place.at, place.path)
        }
    };
    fields.refuse(place.0, place.1, error.message());
}
