//! Splits the files of vectors into cases.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::vectors::Files;

/// One file of vectors; its cases are still text, so that only those that run are parsed.
pub(crate) struct CaseFile {
    /// `folder/file`, without the file's ending.
    pub(crate) name: String,
    /// The text of each case, in file order.
    pub(crate) cases: Vec<String>,
}

/// Finds the cases in all files that hold any: each line of a `.jsonl`, each element of a `.json` array.
///
/// Other files (READMEs, bodies that cases are made from) hold none.
///
/// # Errors
/// A file that is not text, or a `.json` file that is not an array.
pub(crate) fn load(files: &Files) -> Result<Vec<CaseFile>, String> {
    let mut loaded = Vec::new();
    for (path, contents) in files {
        let Some((name, ending)) = path.rsplit_once('.') else { continue };
        if !matches!(ending, "jsonl" | "json") {
            continue;
        }
        let text = std::str::from_utf8(contents).map_err(|error| format!("{path}: {error}"))?;
        let cases = if ending == "jsonl" {
            text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
        } else {
            let elements: Vec<&RawValue> =
                serde_json::from_str(text).map_err(|error| format!("{path}: {error}"))?;
            elements.into_iter().map(|element| element.get().to_owned()).collect()
        };
        loaded.push(CaseFile { name: name.to_owned(), cases });
    }
    Ok(loaded)
}

/// The id of a case: its `id`, in files without ids its `name`, else its place in the file.
pub(crate) fn id(case: &Value, index: usize) -> String {
    let given = case.get("id").or_else(|| case.get("name")).and_then(Value::as_str);
    given.map_or_else(|| format!("#{}", index + 1), str::to_owned)
}

/// Whether the case shows an accident of the real system that an implementation need not repeat.
pub(crate) fn may_differ(case: &Value) -> bool {
    case.get("parity").and_then(Value::as_str).is_some_and(|parity| parity.starts_with("optional"))
}
