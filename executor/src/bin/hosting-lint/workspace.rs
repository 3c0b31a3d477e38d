//! The workspace under examination.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::failure::Failure;

/// Where the workspace keeps what.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    /// Those that are examined.
    pub(crate) packages: Vec<Package>,
}

/// A package of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

impl Workspace {
    /// Asks Cargo about the workspace that holds `directory`.
    ///
    /// # Errors
    /// When Cargo cannot tell, or when the workspace lacks one of the packages `names`.
    pub(crate) fn find(directory: &Path, names: &[String]) -> Result<Self, Failure> {
        let output = cargo()
            .current_dir(directory)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .map_err(|error| Failure::new(format!("cannot start cargo: {error}")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("cargo metadata failed: {}", said.trim())));
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::new(format!("cannot read what cargo metadata says: {error}")))?;
        let (known, mut all) = (
            metadata.packages.iter().map(|package| package.name.clone()).collect::<Vec<_>>().join(", "),
            metadata.packages,
        );
        for name in names {
            if !all.iter().any(|package| package.name == *name) {
                return Err(Failure::new(format!("there is no package `{name}`; packages: {known}")));
            }
        }
        all.retain(|package| names.contains(&package.name));
        Ok(Workspace { root: metadata.workspace_root, target: metadata.target_directory, packages: all })
    }

    /// Returns the path of a file of the lint's own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.join(".hosting-lint").join(name)
    }

    /// Returns the package and the module that `file` belongs to: the folder under `src`, or the file there.
    pub(crate) fn module<'a>(&'a self, file: &'a str) -> Option<(&'a str, &'a str)> {
        self.packages.iter().find_map(|package| {
            let source = package.manifest_path.parent()?.join("src");
            let inside = source.strip_prefix(&self.root).ok()?;
            let rest = Path::new(file).strip_prefix(inside).ok()?;
            let first = rest.components().next()?.as_os_str().to_str()?;
            Some((package.name.as_str(), first.strip_suffix(".rs").unwrap_or(first)))
        })
    }
}

/// Returns a command that runs the Cargo which runs this programme, or the one of the path.
#[expect(clippy::disallowed_methods, reason = "Cargo tells its children by the environment where it is")]
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}
