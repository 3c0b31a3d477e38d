//! From the engine's blocks to ours (request-control spec 15.4, step 4).

use crate::prefix::block_keys::ExtraKeys;

/// Lays the extra keys of an engine's blocks over `blocks` blocks of ours: one of ours takes those of the engine's
/// block that it lies in, or those of all the engine's blocks that it spans. `None` = there are none to take from.
pub(super) fn align(extra: &[ExtraKeys], blocks: usize) -> Option<Vec<ExtraKeys>> {
    let engine = extra.len();
    if engine == 0 {
        return None;
    }
    if engine <= blocks {
        return Some((0..blocks).map(|at| extra[at * engine / blocks].clone()).collect());
    }
    let mut aligned: Vec<ExtraKeys> = vec![None; blocks];
    for (at, keys) in extra.iter().enumerate() {
        if let Some(keys) = keys {
            aligned[at * blocks / engine].get_or_insert_default().extend_from_slice(keys);
        }
    }
    Some(aligned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> ExtraKeys {
        Some(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    #[test]
    fn facts_of_the_specification() {
        let engine = [keys(&["a"]), keys(&["b"]), None, keys(&["c"])];
        assert_eq!(align(&engine, 2).unwrap(), [keys(&["a", "b"]), keys(&["c"])]);
        let engine = [keys(&["img0"]), None];
        assert_eq!(align(&engine, 4).unwrap(), [keys(&["img0"]), keys(&["img0"]), None, None]);
        assert_eq!(align(&[], 4), None);
    }
}
