//! Splits the files of vectors into cases.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::vectors::Files;

/// One file of vectors; its cases are still text, so that only those that run are parsed.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// `folder/file`, without the file's ending.
    pub name: String,
    /// The text of each case, in file order.
    pub cases: Vec<String>,
}

/// Finds the cases in all files that hold any: each line of a `.jsonl`, each element of a `.json` array.
///
/// Other files (READMEs, bodies that cases are made from) hold none.
///
/// # Errors
/// A file that is not text, or a `.json` file that is not an array.
pub fn load(files: &Files) -> Result<Vec<CaseFile>, String> {
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
#[must_use]
pub fn id(case: &Value, index: usize) -> String {
    let given = case.get("id").or_else(|| case.get("name")).and_then(Value::as_str);
    given.map_or_else(|| format!("#{}", index + 1), str::to_owned)
}

/// Whether the case shows an accident of the real system that an implementation need not repeat.
#[must_use]
pub fn may_differ(case: &Value) -> bool {
    case.get("parity").and_then(Value::as_str).is_some_and(|parity| parity.starts_with("optional"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        entries.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn lines_and_array_elements_are_cases_and_other_files_hold_none() {
        let loaded = load(&files(&[
            ("README.md", "text"),
            ("config/names.json", "[{\"name\": \"a\"},\n {\"name\": \"b\"}]"),
            ("config/ok.jsonl", "{\"id\": \"1\"}\n\n{\"id\": \"2\"}\n"),
            ("server/metrics/0.21.0-idle.txt", "up 1"),
        ]));
        let found: Vec<(String, usize)> =
            loaded.unwrap().into_iter().map(|file| (file.name, file.cases.len())).collect();
        assert_eq!(found, [("config/names".to_owned(), 2), ("config/ok".to_owned(), 2)]);
    }

    #[test]
    fn a_json_file_that_is_no_array_is_an_error_that_names_it() {
        let error = load(&files(&[("config/names.json", "{}")])).unwrap_err();
        assert!(error.starts_with("config/names.json: "), "{error}");
    }

    #[test]
    fn a_case_is_called_by_its_id_its_name_or_its_place() {
        assert_eq!(id(&json!({"id": "x-1", "name": "n"}), 4), "x-1");
        assert_eq!(id(&json!({"name": "n"}), 4), "n");
        assert_eq!(id(&json!({}), 4), "#5");
    }

    #[test]
    fn only_the_mark_optional_lets_a_case_differ() {
        assert!(may_differ(&json!({"parity": "optional: duplicate key"})));
        assert!(!may_differ(&json!({"parity": "required"})));
        assert!(!may_differ(&json!({})));
    }
}
