use super::*;

fn files(entries: &[(&str, &str)]) -> Files {
    entries.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

fn write(root: &Path, files: &Files) {
    for (path, contents) in files {
        let target = root.join(path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, contents).unwrap();
    }
}

fn sample() -> Files {
    files(&[
        ("README.md", "what this is"),
        ("config/README.md", "formats"),
        ("config/loader.jsonl", "{}\n"),
        ("server/metrics/idle.txt", "up 1\n"),
    ])
}

#[test]
fn what_is_packed_reads_back_as_it_was() {
    let (source, packed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(source.path(), &sample());
    let read = read_folder(source.path()).unwrap();
    assert_eq!(read, sample());
    pack(&read, packed.path()).unwrap();
    assert_eq!(read_packed(packed.path()).unwrap(), sample());
    assert_eq!(
        entries(packed.path()).unwrap().iter().map(|path| name_of(path)).collect::<Vec<_>>(),
        ["README.md", "config.tar.zst", "server.tar.zst"]
    );
}

#[test]
fn only_the_archive_of_a_changed_folder_is_written_again() {
    let packed = tempfile::tempdir().unwrap();
    pack(&sample(), packed.path()).unwrap();
    // A mark that packing again would wipe out shows that the untouched archive is left alone.
    let untouched = packed.path().join("server.tar.zst");
    let mut marked = fs::read(&untouched).unwrap();
    marked.extend(zstd::encode_all(&[][..], 1).unwrap());
    fs::write(&untouched, &marked).unwrap();

    let mut next = sample();
    next.insert("config/loader.jsonl".to_owned(), b"{\"id\":1}\n".to_vec());
    let changes = pack(&next, packed.path()).unwrap();
    assert_eq!(changes.changed, ["config/loader.jsonl"]);
    assert_eq!(fs::read(&untouched).unwrap(), marked);
    assert_eq!(read_packed(packed.path()).unwrap(), next);
}

#[test]
fn a_folder_that_is_gone_takes_its_archive_along() {
    let packed = tempfile::tempdir().unwrap();
    pack(&sample(), packed.path()).unwrap();
    let mut next = sample();
    next.retain(|path, _| !path.starts_with("server/"));
    assert_eq!(pack(&next, packed.path()).unwrap().removed, ["server/metrics/idle.txt"]);
    assert!(!packed.path().join("server.tar.zst").exists());
}

#[test]
fn a_damaged_archive_is_an_error_and_packing_mends_it() {
    let packed = tempfile::tempdir().unwrap();
    pack(&sample(), packed.path()).unwrap();
    let damaged = packed.path().join("config.tar.zst");
    let whole = fs::read(&damaged).unwrap();
    fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    let error = read_packed(packed.path()).unwrap_err().to_string();
    assert!(error.contains("config.tar.zst"), "{error}");
    pack(&sample(), packed.path()).unwrap();
    assert_eq!(read_packed(packed.path()).unwrap(), sample());
}

#[test]
fn the_same_files_pack_to_the_same_bytes() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    pack(&sample(), one.path()).unwrap();
    pack(&sample(), other.path()).unwrap();
    for path in entries(one.path()).unwrap() {
        assert_eq!(fs::read(&path).unwrap(), fs::read(other.path().join(name_of(&path))).unwrap());
    }
}

#[test]
fn a_folder_without_vectors_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read_folder(folder.path()), Err(VectorsError::Empty(_))));
    assert!(matches!(read_packed(folder.path()), Err(VectorsError::Empty(_))));
    assert!(matches!(read_folder(&folder.path().join("absent")), Err(VectorsError::Io { .. })));
}
