//! Reading files that a user names, within bounds.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::InputError;

/// The largest scenario, router configuration or model description that is read: far beyond any that is written.
const MOST: u64 = 4 << 20;

/// Opens the file at `path`, of which messages speak as `what`; a pipe is as good as a file.
///
/// # Errors
/// When there is none that can be read, or it is a folder; says that `accepted` is.
pub(crate) fn open(path: &Path, what: &str, accepted: &str) -> Result<File, InputError> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.is_dir(), file)));
    let problem = match opened {
        Ok((false, file)) => return Ok(file),
        Ok((true, _)) => format!("cannot read {what}: it is a folder"),
        Err(error) => format!("cannot read {what}: {error}"),
    };
    Err(InputError::new(problem).accepted(accepted).in_source(path.display().to_string()))
}

/// Reads the whole text at `path`, as [`open`] does.
///
/// # Errors
/// As [`open`], and when it is longer than 4 MiB or no UTF-8.
pub(crate) fn read_text(path: &Path, what: &str, accepted: &str) -> Result<String, InputError> {
    let file = open(path, what, accepted)?;
    let mut bytes = Vec::new();
    let read = file.take(MOST + 1).read_to_end(&mut bytes);
    let problem = match (read, String::from_utf8(bytes)) {
        (Err(error), _) => format!("cannot read {what}: {error}"),
        (Ok(length), _) if length as u64 > MOST => {
            return Err(InputError::new(format!("{what} is too long"))
                .accepted(format!("at most {MOST} bytes"))
                .in_source(path.display().to_string()));
        }
        (Ok(_), Err(_)) => format!("cannot read {what}: it is no UTF-8 text"),
        (Ok(_), Ok(text)) => return Ok(text),
    };
    Err(InputError::new(problem).accepted(accepted).in_source(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_of_a_sensible_length_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let read =
            |path: &Path| read_text(path, "the scenario", "a YAML file").map_err(|error| error.message());
        let file = folder.path().join("file");
        std::fs::write(&file, "seed: 1").unwrap();
        assert_eq!(read(&file).unwrap(), "seed: 1");
        assert_eq!(
            read(folder.path()),
            Err("cannot read the scenario: it is a folder; accepted: a YAML file".into())
        );
        std::fs::write(&file, b"\xff").unwrap();
        assert_eq!(
            read(&file),
            Err("cannot read the scenario: it is no UTF-8 text; accepted: a YAML file".into())
        );
        assert_eq!(
            read(Path::new("/dev/zero")),
            Err("the scenario is too long; accepted: at most 4194304 bytes".into())
        );
        let missing = read(&folder.path().join("missing")).unwrap_err();
        assert!(missing.starts_with("cannot read the scenario: No such file"), "{missing}");
    }
}
