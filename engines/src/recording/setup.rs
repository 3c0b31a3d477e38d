use std::io::{self, Read};
use std::path::Path;

use executor::journal::Header;
use prost::Message;
use twox_hash::XxHash64;

use crate::InputError;
use crate::input_file;

/// What a journal's header calls a simulation.
pub const SUBJECT: &str = "simulation";

/// What repeats a simulation.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Setup {
    /// The command line, from `lockstep` on; its seed is always in it.
    #[prost(string, repeated, tag = "1")]
    pub words: Vec<String>,
    /// The files that it names.
    #[prost(message, repeated, tag = "2")]
    pub files: Vec<NamedFile>,
}

/// A file as it was.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NamedFile {
    /// Its path as the command line has it.
    #[prost(string, tag = "1")]
    pub path: String,
    /// XXH64 of its contents.
    #[prost(fixed64, tag = "2")]
    pub hash: u64,
}

impl Setup {
    /// Returns the setup of the command `words` that reads `files`.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn new<'a>(
        words: Vec<String>,
        files: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Self, InputError> {
        let named = |path: &Path| Ok(NamedFile { path: path.display().to_string(), hash: hash(path)? });
        let files: Result<Vec<NamedFile>, InputError> = files.into_iter().map(named).collect();
        Ok(Setup { words, files: files? })
    }

    /// Returns the header of the journal.
    pub fn header(&self, seed: u64) -> Header {
        Header {
            subject: SUBJECT.to_owned(),
            build: concat!("lockstep ", env!("CARGO_PKG_VERSION")).to_owned(),
            seed,
            setup: self.encode_to_vec(),
            ..Header::default()
        }
    }

    /// Reads the setup of a simulation's journal, and makes sure that its files are what they were.
    ///
    /// # Errors
    /// A journal of something else; a file that has changed or gone.
    pub fn of(header: &Header) -> Result<Self, InputError> {
        if header.subject != SUBJECT {
            return Err(InputError::new(format!("the journal is one of a {:?}", header.subject))
                .accepted("a journal that `lockstep run --record` wrote"));
        }
        let setup = Setup::decode(header.setup.as_slice())
            .map_err(|error| InputError::new(format!("the setup in the journal cannot be read: {error}")))?;
        for file in &setup.files {
            if hash(Path::new(&file.path))? != file.hash {
                return Err(InputError::new("it is not what it was when the run was recorded")
                    .accepted("the file of the recording")
                    .in_source(file.path.clone()));
            }
        }
        Ok(setup)
    }
}

fn hash(path: &Path) -> Result<u64, InputError> {
    let mut file = input_file::open(path, "a file of the recording", "a file")?;
    let mut hash = XxHash64::with_seed(0);
    let mut part = vec![0; 1 << 16];
    let read = loop {
        match file.read(&mut part) {
            Ok(0) => break Ok(()),
            Ok(length) => std::hash::Hasher::write(&mut hash, &part[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    let said =
        |error| InputError::new(format!("cannot read it: {error}")).in_source(path.display().to_string());
    read.map_err(said)?;
    Ok(std::hash::Hasher::finish(&hash))
}
