use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::tempdir;

use super::writer::segment_path;
use super::*;
use crate::Instant;

fn header() -> Header {
    Header {
        subject: "test".to_owned(),
        build: "none".to_owned(),
        seed: 7,
        epoch: 1,
        setup: vec![1, 2, 3],
        ..Header::default()
    }
}

fn record(number: u64, body: Vec<u8>) -> Record {
    Record { kind: Kind::Input, at: Instant::from_nanos(number * 1_000), body }
}

/// Writes one frame for each list of bodies, and returns the records.
fn write(folder: &Path, frames: &[Vec<Vec<u8>>], segment_bytes: u64) -> Vec<Record> {
    let options = WriterOptions { segment_bytes, ..WriterOptions::default() };
    let mut writer = Writer::create(folder, header(), options).expect("a new journal");
    let mut records = Vec::new();
    for bodies in frames {
        for body in bodies {
            let record = record(records.len() as u64, body.clone());
            writer.append(record.kind, record.at, &record.body).expect("a folder of our own");
            records.push(record);
        }
        writer.flush().expect("a folder of our own");
    }
    writer.finish().expect("a folder of our own");
    records
}

fn read(folder: &Path) -> (Vec<Record>, Option<Cut>) {
    let mut reader = Reader::open(folder).expect("a header");
    let records: Vec<Record> = reader.by_ref().collect();
    (records, reader.cut().cloned())
}

fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    (1..).map(|number| segment_path(folder, number)).take_while(|path| path.exists()).collect()
}

fn frames() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let body = prop::collection::vec(any::<u8>(), 0..200);
    prop::collection::vec(prop::collection::vec(body, 1..5), 1..8)
}

/// How many records the first `count` frames hold.
fn records_in(frames: &[Vec<Vec<u8>>], count: usize) -> usize {
    frames[..count].iter().map(Vec::len).sum()
}

/// Whether `read` is what some number of whole frames hold.
fn is_frame_prefix(read: &[Record], written: &[Record], frames: &[Vec<Vec<u8>>]) -> bool {
    written.starts_with(read) && (0..=frames.len()).any(|count| records_in(frames, count) == read.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(frames in frames(), segment_bytes in 1u64..4_000) {
        let folder = tempdir().unwrap();
        let written = write(folder.path(), &frames, segment_bytes);
        prop_assert_eq!(read(folder.path()), (written, None));
        prop_assert_eq!(Reader::open(folder.path()).unwrap().header().seed, 7);
    }

    #[test]
    fn a_truncation_leaves_the_whole_frames_before_it(
        frames in frames(),
        segment_bytes in 200u64..4_000,
        at in any::<prop::sample::Index>(),
    ) {
        let folder = tempdir().unwrap();
        let written = write(folder.path(), &frames, segment_bytes);
        let last = segments(folder.path()).pop().unwrap();
        let bytes = fs::read(&last).unwrap();
        let length = at.index(bytes.len());
        fs::write(&last, &bytes[..length]).unwrap();
        match Reader::open(folder.path()) {
            Ok(mut reader) => {
                let read: Vec<Record> = reader.by_ref().collect();
                prop_assert!(is_frame_prefix(&read, &written, &frames));
                prop_assert!(read.len() < written.len(), "the last frame is torn");
                if let Some(cut) = reader.cut() {
                    let text = cut.to_string();
                    prop_assert!(text.contains("cut at the last whole frame") && text.contains(".lsj, byte "), "{}", text);
                    prop_assert!(cut.offset <= length as u64);
                }
            }
            Err(error) => prop_assert!(error.to_string().contains("accepted: a journal with its header"), "{}", error),
        }
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is(
        frames in frames(),
        segment_bytes in 200u64..4_000,
        segment in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let folder = tempdir().unwrap();
        let written = write(folder.path(), &frames, segment_bytes);
        let segments = segments(folder.path());
        let path = &segments[segment.index(segments.len())];
        let mut bytes = fs::read(path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(path, &bytes).unwrap();
        match Reader::open(folder.path()) {
            Ok(mut reader) => {
                let read: Vec<Record> = reader.by_ref().collect();
                prop_assert!(is_frame_prefix(&read, &written, &frames));
                let cut = reader.cut().expect("a flipped bit is no whole frame");
                prop_assert_eq!(&cut.file, path);
                prop_assert!(cut.offset <= at as u64);
            }
            Err(error) => prop_assert_eq!(error.path(), path),
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), sound in any::<bool>()) {
        let folder = tempdir().unwrap();
        let path = segment_path(folder.path(), 1);
        let mut file = Vec::new();
        if sound {
            // A block that has its checksum and is no list of records.
            write(folder.path(), &[], 1_000);
            file = fs::read(&path).unwrap();
            super::frame::encode(1, &bytes, 1, &mut file).unwrap();
        } else {
            file.extend_from_slice(&bytes);
        }
        fs::write(&path, &file).unwrap();
        if let Ok(reader) = Reader::open(folder.path()) {
            prop_assert!(reader.count() <= bytes.len());
        }
    }
}

#[test]
fn a_missing_segment_ends_the_journal_before_it() {
    let folder = tempdir().unwrap();
    let frames: Vec<Vec<Vec<u8>>> = (0..6).map(|n| vec![vec![n; 100]]).collect();
    let written = write(folder.path(), &frames, 1);
    let segments = segments(folder.path());
    assert_eq!(segments.len(), 7, "a segment a frame, and the first without one");
    // The fourth stands where the third was.
    fs::rename(&segments[3], &segments[2]).unwrap();
    let (read, cut) = read(folder.path());
    assert_eq!(read, written[..1]);
    let cut = cut.expect("the third is not the third").to_string();
    assert!(cut.contains("000003.lsj, byte 0: frame 5 stands where frame 3 belongs"), "{cut}");
}

#[test]
fn lengths_of_a_forged_head_are_not_believed() {
    let folder = tempdir().unwrap();
    write(folder.path(), &[vec![vec![1]]], 1_000);
    let path = segment_path(folder.path(), 1);
    let mut bytes = fs::read(&path).unwrap();
    // A head with a sound checksum that announces 4 GiB, and one that announces more than comes out.
    for (stored, raw, said) in [
        (u32::MAX, 1u32, "a frame is torn: 17 of 4294967299 bytes are there"),
        (13, u32::MAX, "a block of 4294967295 bytes is longer than"),
        (13, 1 << 20, "it cannot be read"),
    ] {
        let mut head = b"LSJ1".to_vec();
        head.extend_from_slice(&2u32.to_le_bytes());
        head.extend_from_slice(&stored.to_le_bytes());
        head.extend_from_slice(&raw.to_le_bytes());
        head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
        head.extend_from_slice(&[0; 13]);
        head.extend_from_slice(&crc32fast::hash(&[0; 13]).to_le_bytes());
        let sound = bytes.len();
        bytes.extend_from_slice(&head);
        fs::write(&path, &bytes).unwrap();
        bytes.truncate(sound);
        let (read, cut) = read(folder.path());
        assert_eq!(read.len(), 1);
        let cut = cut.expect("it is no frame").to_string();
        assert!(cut.contains(said), "{cut}");
    }
}

#[test]
fn a_journal_is_not_overwritten_and_its_absence_is_said() {
    let folder = tempdir().unwrap();
    let error = Reader::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("there is no journal") && error.contains("accepted: the folder that --record wrote")
    );
    write(folder.path(), &[], 1_000);
    let error = Writer::create(folder.path(), header(), WriterOptions::default()).unwrap_err().to_string();
    assert!(error.contains("there is a journal already; accepted: a new folder"), "{error}");
}

#[test]
fn a_later_format_is_refused() {
    let folder = tempdir().unwrap();
    write(folder.path(), &[], 1_000);
    let mut block = Block::new();
    let later = Header { version: VERSION + 1, segment: 1, ..header() };
    block.push(Kind::Header, Instant::ZERO, &prost::Message::encode_to_vec(&later));
    let mut file = Vec::new();
    super::frame::encode(0, &block.take(), 1, &mut file).unwrap();
    fs::write(segment_path(folder.path(), 1), &file).unwrap();
    let error = Reader::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("it has version 2 of the format; accepted: versions up to 1"), "{error}");
}

#[test]
fn a_recorder_writes_what_it_was_given_and_ends_quietly_when_it_cannot() {
    let folder = tempdir().unwrap();
    let writer = Writer::create(folder.path(), header(), WriterOptions::default()).unwrap();
    let mut recorder = Recorder::start(writer).unwrap();
    let status = std::sync::Arc::clone(recorder.status());
    let records: Vec<Record> = (0..500).map(|n| record(n, vec![n as u8; 1_000])).collect();
    for Record { kind, at, body } in &records {
        recorder.append(*kind, *at, body);
    }
    drop(recorder);
    assert_eq!((read(folder.path()), status.records(), status.failure()), ((records, None), 500, None));

    // The next segment cannot be opened.
    let other = tempdir().unwrap();
    let options = WriterOptions { segment_bytes: 1, ..WriterOptions::default() };
    let writer = Writer::create(other.path(), header(), options).unwrap();
    let mut recorder = Recorder::start(writer).unwrap();
    let status = std::sync::Arc::clone(recorder.status());
    fs::write(segment_path(other.path(), 2), b"in the way").unwrap();
    recorder.append(Kind::Input, Instant::ZERO, b"lost");
    recorder.flush();
    drop(recorder);
    assert!(status.failure().is_some_and(|why| why.contains("exists")), "{:?}", status.failure());
}
