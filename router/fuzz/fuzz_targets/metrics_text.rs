//! The text that model servers show their metrics in, and the specifications that choose among its samples.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use router::data_layer::metric_spec::MetricSpec;
use router::data_layer::text_format::Exposition;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let _ = MetricSpec::parse(&text);
    let Ok(exposition) = Exposition::parse(Bytes::copy_from_slice(input)) else { return };
    for line in text.lines() {
        // Whatever stands at the start of a line, or behind `# TYPE`, may be the name of a family.
        let name = line.split(['{', ' ']).find(|word| !matches!(*word, "" | "#" | "HELP" | "TYPE")).unwrap_or_default();
        let Some(family) = exposition.family(name) else { continue };
        let _ = family.kind();
        assert!(family.samples().count() > 0, "a family has samples");
        for sample in family.samples() {
            for label in ["le", "model_name", "engine", name] {
                let _ = sample.labels.get(label);
            }
        }
    }
});
