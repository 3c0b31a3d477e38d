//! The bodies that belong to the journal itself.

use prost::Message;

/// What a run was made from: enough to make it again.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Header {
    /// [`VERSION`](super::VERSION) of the format.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Number of the segment that it begins, from 1.
    #[prost(uint32, tag = "2")]
    pub segment: u32,
    /// What was run, and so what inputs, decisions and [`setup`](Self::setup) mean: `"simulation"`, `"router"`.
    #[prost(string, tag = "3")]
    pub subject: String,
    /// The program that ran it and its version. Digests are those of one build.
    #[prost(string, tag = "4")]
    pub build: String,
    /// Seed of all random streams.
    #[prost(fixed64, tag = "5")]
    pub seed: u64,
    /// Wall time at the start, since the UNIX epoch. Unit: ns.
    #[prost(fixed64, tag = "6")]
    pub epoch: u64,
    /// The configuration, in the words of the subject.
    #[prost(bytes = "vec", tag = "7")]
    pub setup: Vec<u8>,
}

/// Where a run stood.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Checkpoint {
    /// Events executed.
    #[prost(uint64, tag = "1")]
    pub events: u64,
    /// Digest over them.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct End {
    /// Events executed.
    #[prost(uint64, tag = "1")]
    pub events: u64,
    /// Digest over them.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// How, in words.
    #[prost(string, tag = "3")]
    pub outcome: String,
}
