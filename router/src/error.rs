//! Errors that a client sees.

use std::fmt;

/// The class of a request's failure (request-control spec 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The request is malformed: 400.
    BadRequest,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// No endpoint meets the request's condition: 412.
    PreconditionFailed,
    /// No capacity: 429.
    ResourceExhausted,
    /// 500.
    Internal,
    /// No endpoint: 503.
    ServiceUnavailable,
    /// Not an inference error: the ext_proc stream ends with a gRPC error.
    Unknown,
    /// The model server failed; metrics only.
    ModelServerError,
}

impl ErrorCode {
    /// Returns the HTTP status, `None` for codes without an immediate response.
    pub fn http_status(self) -> Option<u16> {
        Some(match self {
            ErrorCode::BadRequest => 400,
            ErrorCode::Unauthorized => 401,
            ErrorCode::Forbidden => 403,
            ErrorCode::NotFound => 404,
            ErrorCode::PreconditionFailed => 412,
            ErrorCode::ResourceExhausted => 429,
            ErrorCode::Internal => 500,
            ErrorCode::ServiceUnavailable => 503,
            ErrorCode::Unknown | ErrorCode::ModelServerError => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A request's failure with its code, message and response headers.
///
/// Its text is the body of the immediate response: `inference error: <Code> - <Msg>`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("inference error: {code} - {message}")]
pub struct InferenceError {
    /// Class.
    pub code: ErrorCode,
    /// What went wrong.
    pub message: String,
    /// Headers of the response (name, value).
    pub headers: Vec<(String, String)>,
}

impl InferenceError {
    /// Returns an error without headers.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        InferenceError { code, message: message.into(), headers: Vec::new() }
    }

    /// Adds a response header.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A plugin's failure: an inference error, whose code reaches the client, or any other.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PluginError {
    /// Carries its own HTTP status.
    #[error(transparent)]
    Inference(#[from] InferenceError),
    /// An ordinary error around an inference error: whoever looks through the chain finds its code, the server,
    /// which does not look, has no status for it (request-control spec 1.1).
    #[error("{message}")]
    Wrapped {
        /// The text of the whole.
        message: String,
        /// What is inside.
        source: InferenceError,
    },
    /// Has no status of its own; the caller decides.
    #[error("{0}")]
    Other(String),
}

impl PluginError {
    /// Returns an error without a status of its own.
    pub fn other(message: impl Into<String>) -> Self {
        PluginError::Other(message.into())
    }

    /// Returns the inference error in the chain.
    pub fn inference(&self) -> Option<&InferenceError> {
        match self {
            PluginError::Inference(error) | PluginError::Wrapped { source: error, .. } => Some(error),
            PluginError::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheduling spec 3.5: the map of codes.
    #[test]
    fn codes_have_their_status_and_their_text() {
        for (code, name, status) in [
            (ErrorCode::BadRequest, "BadRequest", Some(400)),
            (ErrorCode::Unauthorized, "Unauthorized", Some(401)),
            (ErrorCode::Forbidden, "Forbidden", Some(403)),
            (ErrorCode::NotFound, "NotFound", Some(404)),
            (ErrorCode::PreconditionFailed, "PreconditionFailed", Some(412)),
            (ErrorCode::ResourceExhausted, "ResourceExhausted", Some(429)),
            (ErrorCode::Internal, "Internal", Some(500)),
            (ErrorCode::ServiceUnavailable, "ServiceUnavailable", Some(503)),
            (ErrorCode::Unknown, "Unknown", None),
        ] {
            assert_eq!(code.http_status(), status, "{code}");
            let text = InferenceError::new(code, "why").to_string();
            assert_eq!(text, format!("inference error: {name} - why"));
        }
    }
}
