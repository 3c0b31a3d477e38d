//! Reading a journal.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use prost::Message;

use super::VERSION;
use super::block::{Kind, Record, Records};
use super::fault::{Cut, JournalError};
use super::frame::{self, Found};
use super::messages::Header;
use super::writer::segment_path;

/// Reads a journal record by record, up to its last whole frame.
#[derive(Debug)]
pub struct Reader {
    folder: PathBuf,
    header: Header,
    segment: Segment,
    /// The number of the next frame.
    frame: u32,
    records: Records,
    cut: Option<Cut>,
    ended: bool,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: BufReader<File>,
    offset: u64,
    left: u64,
}

impl Segment {
    fn open(path: PathBuf) -> Result<Self, JournalError> {
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((left, file)) => Ok(Segment { path, file: BufReader::new(file), offset: 0, left }),
            Err(error) => Err(JournalError::io(&path, "read", &error)),
        }
    }

    fn frame(&mut self, number: u32) -> Found {
        let found = frame::decode(number, self.left, &mut self.file);
        if let Found::Frame(_, length) = &found {
            self.offset += length;
            self.left -= length;
        }
        found
    }
}

impl Reader {
    /// Opens the journal in `folder`.
    ///
    /// # Errors
    /// When there is none, none with a whole header, or one of a later format.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let first = segment_path(folder, 1);
        if !first.is_file() {
            let problem = format!("there is no journal: {} is missing", first.display());
            return Err(JournalError::new(folder, problem, "the folder that --record wrote"));
        }
        let mut segment = Segment::open(first)?;
        let header = header_of(segment.frame(0), 1)
            .map_err(|problem| JournalError::new(&segment.path, problem, "a journal with its header"))?;
        if header.version > VERSION {
            let problem = format!("it has version {} of the format", header.version);
            return Err(JournalError::new(folder, problem, format!("versions up to {VERSION}")));
        }
        let (folder, records) = (folder.to_owned(), Records::default());
        Ok(Reader { folder, header, segment, frame: 1, records, cut: None, ended: false })
    }

    /// Returns what the run was made from.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns where reading ended before the end of the files; `None` as long as it has not.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    fn next_record(&mut self) -> Option<Record> {
        while !self.ended {
            match self.records.next() {
                Some(Ok(Record { kind: Kind::Header | Kind::Unknown(_), .. })) => {}
                Some(Ok(record)) => return Some(record),
                Some(Err(problem)) => self.cut_here(problem),
                None => self.next_block(),
            }
        }
        None
    }

    fn next_block(&mut self) {
        match self.segment.frame(self.frame) {
            Found::Frame(block, _) => {
                self.frame += 1;
                self.records = Records::new(block);
            }
            Found::Broken(reason) => self.cut_here(reason),
            Found::End => self.next_segment(),
        }
    }

    /// Goes on with the segment behind this one, if there is one.
    fn next_segment(&mut self) {
        let number = self.header.segment + 1;
        let path = segment_path(&self.folder, number);
        if !path.is_file() {
            self.ended = true;
            return;
        }
        match Segment::open(path) {
            Ok(segment) => self.segment = segment,
            Err(error) => return self.cut_here(error.to_string()),
        }
        match header_of(self.segment.frame(self.frame), number) {
            Ok(header) if (Header { segment: self.header.segment, ..header.clone() }) != self.header => {
                self.cut_here("this segment belongs to another journal".to_owned());
            }
            Ok(header) => {
                self.header = header;
                self.frame += 1;
            }
            Err(reason) => self.cut_here(reason),
        }
    }

    fn cut_here(&mut self, reason: String) {
        self.ended = true;
        self.cut = Some(Cut { file: self.segment.path.clone(), offset: self.segment.offset, reason });
    }
}

impl Iterator for Reader {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.next_record()
    }
}

/// The header that the first frame of segment `number` holds.
fn header_of(found: Found, number: u32) -> Result<Header, String> {
    let block = match found {
        Found::Frame(block, _) => block,
        Found::End => return Err("it is empty".to_owned()),
        Found::Broken(reason) => return Err(reason),
    };
    match Records::new(block).next() {
        Some(Ok(Record { kind: Kind::Header, body, .. })) => match Header::decode(body.as_slice()) {
            Ok(header) if header.segment == number => Ok(header),
            Ok(header) => Err(format!("segment {} stands where segment {number} belongs", header.segment)),
            Err(error) => Err(format!("its header cannot be read: {error}")),
        },
        _ => Err("it does not begin with a header".to_owned()),
    }
}
