//! Which stages a request used, as metrics and logs call it.

/// The stages beside decode that a request used (scheduling spec 10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// None.
    DecodeOnly,
    /// Prefill.
    PrefillDecode,
    /// Encode.
    EncodeDecode,
    /// Both.
    EncodePrefillDecode,
}

impl Decision {
    /// Returns the decision of a request that used these stages.
    pub fn of(encode_used: bool, prefill_used: bool) -> Self {
        match (encode_used, prefill_used) {
            (false, false) => Decision::DecodeOnly,
            (false, true) => Decision::PrefillDecode,
            (true, false) => Decision::EncodeDecode,
            (true, true) => Decision::EncodePrefillDecode,
        }
    }

    /// Returns the value of the metric label `decision_type`.
    pub fn name(self) -> &'static str {
        match self {
            Decision::DecodeOnly => "decode-only",
            Decision::PrefillDecode => "prefill-decode",
            Decision::EncodeDecode => "encode-decode",
            Decision::EncodePrefillDecode => "encode-prefill-decode",
        }
    }
}
