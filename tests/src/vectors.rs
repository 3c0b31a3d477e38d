//! Where golden vectors come from: a folder of plain files, or the packed copy that travels with the project.
//!
//! The packed copy holds one `<folder>.tar.zst` for each folder of vectors and their top README as it is. Packing
//! is a function of names and contents alone (entries sorted, no times, no owners), and an archive is rewritten
//! only when the contents differ, so version control sees a change only where a vector changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".tar.zst";
const README: &str = "README.md";
const COMPRESSION_LEVEL: i32 = 19;

/// Files by their path: `folder/file.jsonl`, `folder/sub/file.txt`, or the top `README.md`.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Why vectors could not be read or packed.
#[derive(Debug, thiserror::Error)]
pub enum VectorsError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder holds no vectors.
    #[error("{}: no folder with vectors in it", .0.display())]
    Empty(PathBuf),
}

/// How the packed copy differs from the vectors it was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files that the packed copy lacks.
    pub added: Vec<String>,
    /// Files whose contents differ.
    pub changed: Vec<String>,
    /// Files that only the packed copy has.
    pub removed: Vec<String>,
}

impl Changes {
    /// Compares two sets of files.
    #[must_use]
    pub fn between(packed: &Files, source: &Files) -> Self {
        let mut changes = Self::default();
        for (path, contents) in source {
            match packed.get(path) {
                None => changes.added.push(path.clone()),
                Some(old) if old != contents => changes.changed.push(path.clone()),
                Some(_) => {}
            }
        }
        changes.removed = packed.keys().filter(|path| !source.contains_key(*path)).cloned().collect();
        changes
    }

    /// Whether the two sets are equal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    fn touches(&self, folder: &str) -> bool {
        [&self.added, &self.changed, &self.removed]
            .into_iter()
            .flatten()
            .any(|path| folder_of(path) == Some(folder))
    }
}

/// Reads the vectors that this run is about: those of the folder that the environment variable
/// `CONFORMANCE_DIR` names, else those of the packed copy in the project.
///
/// # Errors
/// As [`read_folder`] and [`read_packed`].
pub fn open() -> Result<Files, VectorsError> {
    match std::env::var_os("CONFORMANCE_DIR") {
        Some(folder) => read_folder(Path::new(&folder)),
        None => read_packed(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors"))),
    }
}

/// Reads every file of a folder of vectors, unpacked.
///
/// # Errors
/// A folder or file that cannot be read, or nothing in it but loose files.
pub fn read_folder(root: &Path) -> Result<Files, VectorsError> {
    let mut files = Files::new();
    walk(root, "", &mut files)?;
    files.retain(|path, _| path == README || folder_of(path).is_some());
    non_empty(root, files)
}

/// Reads every file of a packed copy.
///
/// # Errors
/// A folder or archive that cannot be read or is damaged, or no archive at all.
pub fn read_packed(root: &Path) -> Result<Files, VectorsError> {
    let mut files = Files::new();
    for path in entries(root)? {
        let name = name_of(&path);
        if name == README {
            files.insert(name, fs::read(&path).map_err(at(&path))?);
        } else if let Some(folder) = name.strip_suffix(SUFFIX) {
            unpack(&path, folder, &mut files).map_err(at(&path))?;
        }
    }
    non_empty(root, files)
}

/// Makes the packed copy at `root` equal to `source`, touching only archives whose contents differ.
///
/// Returns what was different before.
///
/// # Errors
/// A file that cannot be read or written. A damaged archive is replaced.
pub fn pack(source: &Files, root: &Path) -> Result<Changes, VectorsError> {
    fs::create_dir_all(root).map_err(at(root))?;
    let changes = Changes::between(&read_packed(root).unwrap_or_default(), source);
    let mut folders: BTreeMap<&str, Vec<(&str, &[u8])>> = BTreeMap::new();
    for (path, contents) in source {
        match path.split_once('/') {
            Some((folder, rest)) => folders.entry(folder).or_default().push((rest, contents)),
            None => {
                let target = root.join(path);
                fs::write(&target, contents).map_err(at(&target))?;
            }
        }
    }
    for (folder, files) in &folders {
        let target = root.join(format!("{folder}{SUFFIX}"));
        if changes.touches(folder) || !target.exists() {
            let archive = compress(files).map_err(at(&target))?;
            fs::write(&target, archive).map_err(at(&target))?;
        }
    }
    for path in entries(root)? {
        if name_of(&path).strip_suffix(SUFFIX).is_some_and(|folder| !folders.contains_key(folder)) {
            fs::remove_file(&path).map_err(at(&path))?;
        }
    }
    Ok(changes)
}

fn compress(files: &[(&str, &[u8])]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, contents) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, *contents)?;
    }
    zstd::encode_all(archive.into_inner()?.as_slice(), COMPRESSION_LEVEL)
}

fn unpack(path: &Path, folder: &str, files: &mut Files) -> io::Result<()> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(fs::File::open(path)?)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = format!("{folder}/{}", entry.path()?.display());
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents)?;
        files.insert(name, contents);
    }
    Ok(())
}

fn walk(folder: &Path, prefix: &str, files: &mut Files) -> Result<(), VectorsError> {
    for path in entries(folder)? {
        let name = format!("{prefix}{}", name_of(&path));
        if path.is_dir() {
            walk(&path, &format!("{name}/"), files)?;
        } else {
            files.insert(name, fs::read(&path).map_err(at(&path))?);
        }
    }
    Ok(())
}

/// The entries of a folder by name; hidden ones are left out.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, VectorsError> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        if !name_of(&path).starts_with('.') {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn non_empty(root: &Path, files: Files) -> Result<Files, VectorsError> {
    if files.keys().any(|path| folder_of(path).is_some()) {
        Ok(files)
    } else {
        Err(VectorsError::Empty(root.to_owned()))
    }
}

fn folder_of(path: &str) -> Option<&str> {
    path.split_once('/').map(|(folder, _)| folder)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> VectorsError {
    let path = path.to_owned();
    move |source| VectorsError::Io { path, source }
}

#[cfg(test)]
mod tests;
