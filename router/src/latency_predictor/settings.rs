use std::time::Duration;

use crate::outbound::Server;

/// Most rows that the prediction server takes at once.
const MOST_BULK: u64 = 100;

/// How the client of a predictor works: environment variables of the process, as with the llm-d Router.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) training: Server,
    /// At least one.
    pub(super) prediction: Vec<Server>,
    /// Most entries that one flush sends.
    pub(super) sample_size: usize,
    pub(super) flush_interval: Duration,
    pub(super) http_timeout: Duration,
    pub(super) metrics_interval: Duration,
    pub(super) bulk_size: usize,
    /// How long submissions wait for others; zero = they do not.
    pub(super) coalesce_window: Duration,
    /// Rows at which a window ends early; `None` = never.
    pub(super) coalesced_rows: Option<usize>,
    pub(super) concurrent_dispatches: usize,
}

/// A variable that names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {variable}: {reason}")]
pub struct SettingsError {
    /// Its name.
    pub variable: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl Settings {
    /// Reads the settings of this process.
    ///
    /// # Errors
    /// A URL that is none.
    #[expect(
        clippy::disallowed_methods,
        reason = "where the predictor is and how it is asked is configured by the llm-d Router's environment variables"
    )]
    pub fn from_environment() -> Result<Self, SettingsError> {
        Settings::from_lookup(|name| std::env::var(name).ok())
    }

    /// Reads the settings from variables that `lookup` gives. Numbers that are none or out of range do not count.
    ///
    /// # Errors
    /// A URL that is none.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let server = |variable, url: &str| {
            Server::parse(url.trim()).map_err(|reason| SettingsError { variable, reason })
        };
        let text = |variable, default: &str| {
            lookup(variable).filter(|text| !text.trim().is_empty()).unwrap_or_else(|| default.to_owned())
        };
        let number = |variable, least: u64, most: u64, default: u64| {
            let given = lookup(variable).and_then(|text| text.trim().parse().ok());
            given.filter(|number| (least..=most).contains(number)).unwrap_or(default)
        };
        let size = |variable, least, most, default| number(variable, least, most, default) as usize;
        const MOST: u64 = u32::MAX as u64;
        let seconds = |variable, default| Duration::from_secs(number(variable, 1, MOST, default));
        let urls = text("PREDICTION_SERVER_URL", "http://localhost:8001");
        let prediction = urls.split(',').filter(|url| !url.trim().is_empty());
        let prediction: Vec<Server> =
            prediction.map(|url| server("PREDICTION_SERVER_URL", url)).collect::<Result<_, _>>()?;
        if prediction.is_empty() {
            let reason = "it names no server".to_owned();
            return Err(SettingsError { variable: "PREDICTION_SERVER_URL", reason });
        }
        let rows = size("LATENCY_MAX_COALESCED_ROWS", 0, MOST, 0);
        Ok(Settings {
            training: server("TRAINING_SERVER_URL", &text("TRAINING_SERVER_URL", "http://localhost:8000"))?,
            prediction,
            sample_size: size("LATENCY_MAX_SAMPLE_SIZE", 1, MOST, 1000),
            flush_interval: seconds("LATENCY_FLUSH_INTERVAL_SEC", 1),
            http_timeout: seconds("LATENCY_HTTP_TIMEOUT_SEC", 10),
            metrics_interval: seconds("LATENCY_METRICS_INTERVAL_SEC", 60),
            bulk_size: size("LATENCY_MAX_BULK_SIZE", 1, MOST_BULK, MOST_BULK),
            coalesce_window: Duration::from_millis(number("LATENCY_COALESCE_WINDOW_MS", 0, MOST, 1)),
            coalesced_rows: Some(rows).filter(|rows| *rows > 0),
            concurrent_dispatches: size("LATENCY_MAX_CONCURRENT_DISPATCHES", 1, MOST, 36),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_lookup(|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        let settings = read(&[]).expect("it has defaults");
        assert_eq!((settings.bulk_size, settings.sample_size), (100, 1000));
        assert_eq!(settings.coalesce_window, Duration::from_millis(1));
        assert_eq!((settings.coalesced_rows, settings.concurrent_dispatches), (None, 36));
        assert_eq!(settings.prediction.len(), 1);
    }

    #[test]
    fn what_is_no_number_in_range_does_not_count() {
        let settings = read(&[
            ("LATENCY_MAX_BULK_SIZE", "101"),
            ("LATENCY_COALESCE_WINDOW_MS", "0"),
            ("LATENCY_MAX_CONCURRENT_DISPATCHES", "many"),
            ("LATENCY_FLUSH_INTERVAL_SEC", "0"),
            ("LATENCY_MAX_COALESCED_ROWS", "7"),
            ("PREDICTION_SERVER_URL", "http://a:1, http://b:2,"),
        ]);
        let settings = settings.expect("it reads");
        assert_eq!((settings.bulk_size, settings.concurrent_dispatches), (100, 36));
        assert_eq!(
            (settings.coalesce_window, settings.flush_interval),
            (Duration::ZERO, Duration::from_secs(1))
        );
        assert_eq!((settings.coalesced_rows, settings.prediction.len()), (Some(7), 2));
    }

    #[test]
    fn a_url_that_is_none_is_refused_by_name() {
        for (variable, url) in
            [("TRAINING_SERVER_URL", "localhost"), ("PREDICTION_SERVER_URL", "http://a,https://b")]
        {
            assert_eq!(read(&[(variable, url)]).expect_err("refused").variable, variable);
        }
    }
}
