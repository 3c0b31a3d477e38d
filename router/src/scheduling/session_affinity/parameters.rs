//! What session affinity is configured with.

use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Strategy;
use super::sessions::{Sessions, Source};
use crate::plugin::{FactoryError, Parameters};
use crate::scheduling::invalid;

/// The header that carries a token, where the configuration does not say.
const TOKEN_HEADER: &str = "x-session-token";

/// The header that carries a session id, where the configuration does not say.
const SESSION_HEADER: &str = "x-session-id";

const DEFAULT_TTL: Duration = Duration::from_secs(300);
const DEFAULT_SWEEP: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SessionParameters {
    /// `encoded_endpoint_header` or `session_id`; only its own block counts.
    strategy: String,
    profile_name: String,
    encoded_endpoint_header_config: TokenParameters,
    session_id_config: SessionIdParameters,
}

impl Default for SessionParameters {
    fn default() -> Self {
        SessionParameters {
            strategy: "encoded_endpoint_header".to_owned(),
            profile_name: String::new(),
            encoded_endpoint_header_config: TokenParameters::default(),
            session_id_config: SessionIdParameters::default(),
        }
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct TokenParameters {
    header: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SessionIdParameters {
    /// Where to look for the id, in this order.
    sources: Vec<SourceParameters>,
    /// How long an unused session is remembered; 0 = the default. Unit: seconds.
    eviction_ttl_seconds: f64,
    /// How often unused sessions are looked for; 0 = the default. Unit: seconds.
    eviction_sweep_seconds: f64,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct SourceParameters {
    header: String,
    attribute: String,
}

/// Parameters that hold together.
pub(super) struct Settings {
    pub(super) profile: String,
    pub(super) strategy: Strategy,
}

impl Settings {
    pub(super) fn new(parameters: &Parameters) -> Result<Self, FactoryError> {
        let p: SessionParameters = parameters.decode()?;
        let strategy = match p.strategy.as_str() {
            "encoded_endpoint_header" => {
                Strategy::Token { header: header_or_default(&p.encoded_endpoint_header_config.header) }
            }
            "session_id" => Strategy::SessionId(Rc::new(sessions(p.session_id_config)?)),
            other => {
                return Err(invalid(format!(
                    "strategy {other:?} is unknown; accepted: encoded_endpoint_header, session_id"
                )));
            }
        };
        Ok(Settings { profile: p.profile_name, strategy })
    }
}

/// Returns a configured header name without blanks and in lower case, the token's default where that is empty.
pub fn header_or_default(configured: &str) -> String {
    let trimmed = configured.trim();
    if trimmed.is_empty() { TOKEN_HEADER.to_owned() } else { trimmed.to_lowercase() }
}

fn sessions(p: SessionIdParameters) -> Result<Sessions, FactoryError> {
    let mut sources = p.sources.into_iter().map(source).collect::<Result<Vec<_>, _>>()?;
    if sources.is_empty() {
        sources.push(Source::Header(SESSION_HEADER.to_owned()));
    }
    let ttl = duration("evictionTtlSeconds", p.eviction_ttl_seconds, DEFAULT_TTL)?;
    let sweep = duration("evictionSweepSeconds", p.eviction_sweep_seconds, DEFAULT_SWEEP)?;
    if sweep.is_zero() {
        return Err(invalid("evictionSweepSeconds must be at least a nanosecond"));
    }
    Ok(Sessions::new(sources, ttl, sweep))
}

fn source(p: SourceParameters) -> Result<Source, FactoryError> {
    match (p.header.is_empty(), p.attribute.is_empty()) {
        (false, true) => Ok(Source::Header(header_or_default(&p.header))),
        (true, false) => Ok(Source::Attribute(p.attribute)),
        _ => Err(invalid("a session id source names exactly one of header and attribute")),
    }
}

/// Cuts seconds to whole nanoseconds; zero means the default.
fn duration(field: &str, seconds: f64, default: Duration) -> Result<Duration, FactoryError> {
    if seconds < 0.0 {
        return Err(invalid(format!("{field} must be > 0, got {seconds}")));
    }
    // The conversion saturates, at more than 500 years.
    Ok(if seconds == 0.0 { default } else { Duration::from_nanos((seconds * 1e9) as u64) })
}
