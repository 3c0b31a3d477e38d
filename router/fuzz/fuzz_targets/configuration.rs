//! `EndpointPickerConfig` files: whatever the text, it is read, or refused with reasons.

#![no_main]

use libfuzzer_sys::fuzz_target;
use router::config::schema::EndpointPickerConfig;

fuzz_target!(|text: &str| {
    if let Err(problems) = EndpointPickerConfig::parse("fuzz.yaml", text) {
        assert!(!problems.list().is_empty(), "a refusal has a reason");
        let _ = problems.to_string();
    }
});
