//! Frames of gRPC bodies (request-control spec 13.6).

use super::ParseError;

/// Bytes before a message: a flag and the message's length.
const HEADER: usize = 5;

/// Returns the message of the first frame; what follows it does not count.
///
/// # Errors
/// A frame that is cut off, or compressed.
pub(super) fn message(frame: &[u8]) -> Result<&[u8], ParseError> {
    let Some((header, rest)) = frame.split_first_chunk::<HEADER>() else {
        return Err(ParseError(format!(
            "invalid gRPC frame: expected at least {HEADER} bytes for header, got {}",
            frame.len()
        )));
    };
    let [flag, length @ ..] = *header;
    if flag == 1 {
        return Err(ParseError::new("compressed gRPC payload is not supported"));
    }
    let length = u32::from_be_bytes(length);
    usize::try_from(length).ok().and_then(|length| rest.get(..length)).ok_or_else(|| {
        ParseError(format!(
            "incomplete gRPC payload: header indicates {length} bytes, but only {} bytes are available",
            rest.len()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_frame_counts_and_it_must_be_whole() {
        for (frame, expected) in [
            (&[0, 0, 0, 0, 2, 7, 8, 9][..], Ok(&[7, 8][..])),
            (&[2, 0, 0, 0, 0], Ok(&[])),
            (&[1, 0, 0, 0, 0], Err("compressed gRPC payload is not supported")),
            (&[0, 0, 0], Err("invalid gRPC frame: expected at least 5 bytes for header, got 3")),
            (
                &[0, 255, 255, 255, 255, 1],
                Err(
                    "incomplete gRPC payload: header indicates 4294967295 bytes, but only 1 bytes are available",
                ),
            ),
        ] {
            assert_eq!(message(frame), expected.map_err(ParseError::new), "{frame:?}");
        }
    }
}
