//! The token that names an endpoint: standard base64 of its ID as text.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::endpoint::EndpointId;

/// Padded, and as tolerant as upstream of bits that the padding leaves unused.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Returns the token of an endpoint.
pub fn encode(id: &EndpointId) -> String {
    BASE64.encode(id.to_string())
}

/// Returns the text in a token, empty where it holds none; line ends in it do not count.
pub fn decode(token: &str) -> Vec<u8> {
    let joined: Vec<u8> = token.bytes().filter(|byte| !b"\r\n".contains(byte)).collect();
    BASE64.decode(joined).unwrap_or_else(|error| {
        tracing::debug!(%error, "a session token is no base64 text");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheduling spec 8.1.
    #[test]
    fn tokens_are_padded_standard_base64() {
        let id = EndpointId::new("ns", "pod-a");
        assert_eq!(encode(&id), "bnMvcG9kLWE=");
        for (token, text) in [
            ("bnMvcG9kLWE=", "ns/pod-a"),
            ("bnMvcG9kLWF=", "ns/pod-a"),
            ("bnMvcG9k\r\nLWE=", "ns/pod-a"),
            ("bnMvcG9kLWE", ""),
            ("bnMvcG9kLWE==", ""),
            (" bnMvcG9kLWE=", ""),
            ("bnMvcG9k-WE=", ""),
            ("garbage-token", ""),
            ("", ""),
        ] {
            assert_eq!(decode(token), text.as_bytes(), "{token:?}");
        }
    }
}
