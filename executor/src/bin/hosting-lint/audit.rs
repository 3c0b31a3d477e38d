//! The list of uses that a plugin's audit starts from.

use std::path::Path;

use crate::uses::{Side, Use};

/// Lists the uses in the files under `path`, relative to the workspace, one a line.
pub(crate) fn table(uses: &[Use], path: &Path) -> String {
    let inside: Vec<&Use> = uses.iter().filter(|one| Path::new(&one.file).starts_with(path)).collect();
    let places: Vec<String> = inside.iter().map(|one| format!("{}:{}", one.file, one.line)).collect();
    let width = places.iter().map(String::len).max().unwrap_or(0);
    let mut table = String::new();
    for (one, place) in inside.iter().zip(&places) {
        let Use { kind, what, function, .. } = one;
        let side = match one.side {
            Side::Around => "around",
            Side::Seam => "seam",
        };
        table.push_str(&format!("{place:width$}  {side:6}  {kind:17}  {what}  in {function}\n"));
    }
    table
}
