use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use http::uri::Authority;

/// The address of a server: host and port. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    host: Arc<str>,
    port: u16,
}

impl Endpoint {
    /// Returns the endpoint at `host` (a name or an address; IPv6 without brackets) and `port`.
    ///
    /// # Errors
    /// When `host` cannot stand in a URI.
    pub fn new(host: &str, port: u16) -> Result<Self, ParseEndpointError> {
        let endpoint = Endpoint { host: Arc::from(host), port };
        match Authority::from_str(&endpoint.to_string()) {
            // The host that is read back is the whole of what was given: no user, no port inside.
            Ok(read) if !host.is_empty() && read.host().trim_matches(['[', ']']) == host => Ok(endpoint),
            _ => Err(ParseEndpointError(host.to_owned())),
        }
    }

    /// Returns the host, IPv6 without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// `host:port`, with brackets about IPv6.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(addr: SocketAddr) -> Self {
        Endpoint { host: Arc::from(addr.ip().to_string()), port: addr.port() }
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseEndpointError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(refused)?,
            None if host.contains(':') => return Err(refused()),
            None => host,
        };
        if !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refused());
        }
        Endpoint::new(host, port.parse().map_err(|_| refused())?).map_err(|_| refused())
    }
}

/// The error of a text that names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseEndpointError(String);

impl fmt::Display for ParseEndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no endpoint: expected host:port, as in 10.0.0.1:8000 or [::1]:8000", self.0)
    }
}

impl std::error::Error for ParseEndpointError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in ["10.0.0.1:8000", "[::1]:80", "pod-0.svc.cluster.local:65535"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("[::1]:80".parse::<Endpoint>().unwrap().host(), "::1");
    }

    #[test]
    fn refuses_what_names_no_endpoint() {
        for text in [
            "", "a", ":80", "a:", "a:x", "a:+1", "a:65536", "::1:80", "[::1:80", "a b:80", "u@h:80", "a/b:80",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
