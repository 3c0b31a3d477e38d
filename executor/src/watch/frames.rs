//! Backtraces without the frames that are the same everywhere.

use std::backtrace::Backtrace;

/// How many frames a report keeps.
const KEPT: usize = 12;

/// Crates whose frames say nothing about the code that waits.
const FOLDED: [&str; 10] = [
    "std",
    "core",
    "alloc",
    "executor",
    "tokio",
    "futures",
    "futures_util",
    "futures_core",
    "pin_project",
    "test",
];

/// Returns the frames of hosted code, innermost first, each as `function at file:line`.
pub(crate) fn own_frames(backtrace: &Backtrace) -> Vec<String> {
    let text = backtrace.to_string();
    let mut frames: Vec<String> = Vec::new();
    let mut kept = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut().filter(|_| kept) {
                frame.push_str(" at ");
                frame.push_str(place.trim_start_matches("./"));
            }
            kept = false;
        } else if let Some((number, function)) = line.split_once(": ")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            kept = is_own(function) && frames.len() < KEPT;
            if kept {
                frames.push(function.to_owned());
            }
        }
    }
    frames
}

/// Whether a function belongs to none of the crates that are folded.
fn is_own(function: &str) -> bool {
    let start = function.trim_start_matches(['<', '&', '*']);
    let krate = start.split("::").next().unwrap_or_default();
    let named =
        start.contains("::") && krate.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    named && !FOLDED.contains(&krate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_runtimes_are_folded_and_those_of_hosted_code_stay() {
        for own in ["router::director::run::{{closure}}", "<engines::Driver as core::future::Future>::poll"] {
            assert!(is_own(own), "{own}");
        }
        for folded in [
            "std::panicking::try",
            "<executor::Park as core::future::Future>::poll",
            "<&mut tokio::sync::oneshot::Receiver<T> as core::future::Future>::poll",
            "__rust_begin_short_backtrace",
            "main",
            "<F as core::future::Future>::poll",
            "clone",
        ] {
            assert!(!is_own(folded), "{folded}");
        }
    }
}
