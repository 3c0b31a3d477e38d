use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

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
    /// A plugin that finds endpoints gave up.
    Discovery(String),
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
            Failure::Discovery(error) => write!(f, "error: {error}"),
        }
    }
}

impl std::error::Error for Failure {}
