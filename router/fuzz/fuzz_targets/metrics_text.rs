//! The text that model servers show their metrics in, and the list of their models.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use router::data_layer::families::Families;
use router::data_layer::metric_spec::MetricSpec;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = MetricSpec::parse(text);
    }
    FAMILIES
});
