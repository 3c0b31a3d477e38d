//! What all sources that poll over HTTP have in common (configuration spec 6.1).

use std::fmt::Write;
use std::time::Duration;

use crate::config::scalars::parse_duration;
use crate::endpoint::EndpointMetadata;

/// Bodies are read up to this size, where upstream sets no limit. Unit: bytes.
pub(super) const BODY_LIMIT: usize = 32 << 20;

/// Where a source polls, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpSource {
    scheme: Scheme,
    path: String,
    port: Option<u32>,
    use_node_address: bool,
    interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// TLS parameters of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tls<'a> {
    pub(super) skip_verify: bool,
    pub(super) ca_cert: &'a str,
    pub(super) client_cert: &'a str,
    pub(super) client_key: &'a str,
}

impl HttpSource {
    /// Returns a source that polls `scheme://<metrics host>/path`.
    pub(super) fn new(scheme: &str, path: &str, interval: &str) -> Result<Self, String> {
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(format!("unsupported scheme: {scheme:?}; accepted: http, https")),
        };
        let interval = match interval {
            "" => Duration::ZERO,
            text => match parse_duration(text).map(u64::try_from) {
                Ok(Ok(nanos)) => Duration::from_nanos(nanos),
                Ok(Err(_)) => return Err(format!("invalid interval {text:?}: it is negative")),
                Err(error) => return Err(format!("invalid interval {text:?}: {error}")),
            },
        };
        Ok(HttpSource { scheme, path: escape_path(path), port: None, use_node_address: false, interval })
    }

    /// Polls `address:port` of the endpoint instead of its metrics host.
    pub(super) fn with_port(mut self, port: u32) -> Self {
        self.port = Some(port);
        self
    }

    /// Polls the node's address, where there is one, instead of the endpoint's.
    pub(super) fn with_node_address(mut self) -> Self {
        self.use_node_address = true;
        self
    }

    /// Checks TLS parameters, which count only for `https`.
    pub(super) fn check_tls(&self, tls: Tls<'_>) -> Result<(), String> {
        if self.scheme != Scheme::Https {
            return Ok(());
        }
        if tls.client_cert.is_empty() != tls.client_key.is_empty() {
            return Err("clientCertPath and clientKeyPath must be set together".into());
        }
        if !tls.client_cert.is_empty() {
            return Err(format!(
                "loading client cert {:?}: client certificates are not supported",
                tls.client_cert
            ));
        }
        // Without verification the CA is not even read.
        if !tls.skip_verify && !tls.ca_cert.is_empty() {
            return Err(format!("reading CA cert {:?}: a CA of one's own is not supported", tls.ca_cert));
        }
        Ok(())
    }

    /// Returns the URL to get.
    pub(super) fn url(&self, endpoint: &EndpointMetadata) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        let Some(port) = self.port else {
            return format!("{scheme}://{}{}", endpoint.metrics_host, self.path);
        };
        let by_node = self.use_node_address && !endpoint.node_address.is_empty();
        let address = if by_node { &endpoint.node_address } else { &endpoint.address };
        if address.contains(':') {
            format!("{scheme}://[{address}]:{port}{}", self.path)
        } else {
            format!("{scheme}://{address}:{port}{}", self.path)
        }
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }
}

/// Returns `path` as it stands in a URL: with a slash in front, everything else taken literally.
fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len() + 1);
    if !path.is_empty() && !path.starts_with('/') {
        escaped.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(byte.into()),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@' => {
                escaped.push(byte.into());
            }
            _ => {
                // Writing to a String does not fail.
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(source: &HttpSource, address: &str) -> String {
        source.url(&EndpointMetadata {
            address: address.into(),
            node_address: "192.168.0.9".into(),
            metrics_host: "host:9090".into(),
            ..EndpointMetadata::default()
        })
    }

    #[test]
    fn the_path_is_literal() {
        for (path, escaped) in [
            ("", ""),
            ("m", "/m"),
            ("/m?x=1", "/m%3Fx=1"),
            ("/m#f", "/m%23f"),
            ("/a%20b c", "/a%2520b%20c"),
            ("//x", "//x"),
            ("/ä", "/%C3%A4"),
        ] {
            let source = HttpSource::new("http", path, "").unwrap();
            assert_eq!(url(&source, "10.0.0.1"), format!("http://host:9090{escaped}"));
        }
    }

    #[test]
    fn a_port_replaces_the_metrics_host() {
        let source = HttpSource::new("https", "/m", "").unwrap().with_port(9400);
        assert_eq!(url(&source, "10.0.0.1"), "https://10.0.0.1:9400/m");
        assert_eq!(url(&source, "fd00::1"), "https://[fd00::1]:9400/m");
        assert_eq!(url(&source.with_node_address(), "10.0.0.1"), "https://192.168.0.9:9400/m");
    }

    #[test]
    fn scheme_and_interval_are_checked() {
        assert!(HttpSource::new("HTTP", "", "").is_err());
        assert!(HttpSource::new("", "", "").is_err());
        assert!(HttpSource::new("http", "", "-1s").is_err());
        assert!(HttpSource::new("http", "", "5").is_err());
        assert_eq!(HttpSource::new("http", "", "1m30s").unwrap().interval(), Duration::from_secs(90));
    }
}
