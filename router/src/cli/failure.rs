use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

use executor::http::Endpoint;

use crate::config::fault::Fault;
use crate::config::problem::Problems;

/// Why the command could not run.
#[derive(Debug)]
pub enum Failure {
    /// A file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The configuration is refused; says everything that is wrong with it.
    Configuration(Problems<Fault>),
    /// The address cannot be listened on.
    Bind(SocketAddr, io::Error),
    /// The runtime does not start.
    Runtime(io::Error),
    /// Nothing says which endpoints there are.
    NoEndpoints,
    /// A model server is named twice.
    EndpointTwice(Endpoint),
    /// A plugin that finds endpoints gave up.
    Discovery(String),
    /// A second signal ended the drain.
    DrainEnded(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreadable(path, error) => {
                write!(f, "error: cannot read {}: {error}; expected an EndpointPickerConfig file", path.display())
            }
            Failure::Configuration(problems) => write!(f, "error: the configuration is refused\n{problems}"),
            Failure::Bind(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "error: --listen {address}: the port is in use; choose another, or 0 for a free one")
            }
            Failure::Bind(address, error) => write!(f, "error: --listen {address}: {error}"),
            Failure::Runtime(error) => write!(f, "error: the runtime does not start: {error}"),
            Failure::NoEndpoints => f.write_str(
                "error: nothing says which model servers there are; expected `dataLayer.discovery` in the \
                 configuration (such as a file-discovery plugin) or --endpoint HOST:PORT, which may be repeated",
            ),
            Failure::EndpointTwice(endpoint) => write!(
                f,
                "error: --endpoint {endpoint} is given twice; expected each model server once, because each is \
                 polled and counted by itself"
            ),
            Failure::DrainEnded(signal) => {
                write!(f, "error: {signal} while draining: requests in flight were cut off")
            }
            Failure::Discovery(error) => write!(f, "error: {error}"),
        }
    }
}

impl Failure {
    /// Returns the exit code of the process: 1 where it ran and was cut short, 2 where it could not begin.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::DrainEnded(_) => 1,
            _ => 2,
        }
    }
}

impl std::error::Error for Failure {}
