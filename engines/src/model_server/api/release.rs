//! Releases of vLLM whose answers differ (model-server spec 1.2, 1.3, 10).

/// A span of releases that answer alike, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Release {
    /// Up to 0.26, as 0.21 answers.
    V21,
    /// From 0.27 on.
    V27,
    /// From 0.32 on.
    V32,
}

impl Release {
    /// Returns where `version`, such as `0.21.0`, belongs; what is no version answers as the default release does.
    pub(super) fn of(version: &str) -> Self {
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(0), Some(..27)) | (None, _) | (_, None) => Release::V21,
            (Some(0), Some(..32)) => Release::V27,
            _ => Release::V32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_answers_as_the_last_change_before_it() {
        for (version, release) in [
            ("0.10.0", Release::V21),
            ("0.21.0", Release::V21),
            ("0.26.9", Release::V21),
            ("0.27.1", Release::V27),
            ("0.31", Release::V27),
            ("0.32.0", Release::V32),
            ("1.0.0", Release::V32),
            ("nightly", Release::V21),
            ("", Release::V21),
        ] {
            assert_eq!(Release::of(version), release, "{version}");
        }
    }
}
