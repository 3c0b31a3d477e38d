//! The frames of a message (request-control spec 15.2).

use bytes::Bytes;

/// A batch as it travels: under a topic, with a number, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it was published under; what is no UTF-8 in it is replaced.
    pub topic: String,
    /// The publisher counts its batches from zero.
    pub sequence: u64,
    /// The batch.
    pub payload: Bytes,
}

impl Message {
    /// Reads a message: exactly three frames, topic, number (the first eight bytes, big endian) and payload.
    /// Other frames are no message.
    pub fn of(frames: &[Bytes]) -> Option<Self> {
        let [topic, sequence, payload] = frames else { return None };
        let sequence = u64::from_be_bytes(*sequence.first_chunk()?);
        let topic = String::from_utf8_lossy(topic).into_owned();
        Some(Message { topic, sequence, payload: payload.clone() })
    }
}
