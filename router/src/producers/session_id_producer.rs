//! `session-id-producer`: reads the session of a request from a header or a cookie (request-control spec 8.2).

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::candidates::Candidates;
use crate::data_key::DataKey;
use crate::data_key::well_known::SESSION_ID;
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, ParameterError, Parameters, Roles, TypedKey};
use crate::request::InferenceRequest;
use crate::request_control::{DataProducer, Produced};

/// Name of the type.
pub const TYPE: &str = "session-id-producer";

/// Parameters of the type; exactly one of them is given.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SessionIdParameters {
    /// Header that holds the session, in any case.
    pub header_name: String,
    /// Cookie that holds it; case counts.
    pub cookie_name: String,
}

/// Builds an instance, which sets the request attribute `SessionIDDataKey/<name>`.
///
/// # Errors
/// Neither a header nor a cookie, or both.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let SessionIdParameters { header_name, cookie_name } = parameters.decode()?;
    let (header, cookie) = (header_name.trim().to_lowercase(), cookie_name.trim().to_owned());
    let exactly = format!("'{TYPE}' requires exactly one of headerName or cookieName to be set");
    let source = match (header.is_empty(), cookie.is_empty()) {
        (false, true) => Source::Header(header),
        (true, false) => Source::Cookie(cookie),
        (true, true) => return Err(ParameterError::new(exactly).into()),
        (false, false) => return Err(ParameterError::new(format!("{exactly}, not both")).into()),
    };
    let key = DataKey::new(SESSION_ID.0, name);
    let data = DataFlow { produces: vec![TypedKey::of::<String>(&key)], ..DataFlow::default() };
    let producer = Rc::new(SessionIdProducer { key: key.to_string(), source });
    let roles = Roles { producer: Some(producer), ..Roles::default() };
    Ok(Instance::new(TYPE, name, roles).with_data(data))
}

enum Source {
    Header(String),
    Cookie(String),
}

struct SessionIdProducer {
    key: String,
    source: Source,
}

impl DataProducer for SessionIdProducer {
    fn produce<'a>(&'a self, request: &'a mut InferenceRequest, _: &'a mut Candidates) -> Produced<'a> {
        let session = match &self.source {
            Source::Header(name) => request.headers.get(name),
            Source::Cookie(name) => request.headers.get("cookie").and_then(|cookies| cookie(cookies, name)),
        };
        if let Some(session) = session.map(str::trim).filter(|session| !session.is_empty()) {
            let session = session.to_owned();
            request.attributes.put(self.key.as_str(), session);
        }
        Produced::Ready(Ok(()))
    }
}

/// Returns the value of the first cookie `name`; case counts.
fn cookie<'a>(cookies: &'a str, name: &str) -> Option<&'a str> {
    let pairs = cookies.split(';').filter_map(|part| part.trim().split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::scheduling::testing::handle;

    /// Request-control spec 8.2.
    #[test]
    fn a_session_comes_from_one_header_or_one_cookie() {
        let session = |parameters: Value, headers: &[(&str, &str)]| {
            let instance = factory("mine", &Parameters::new(parameters), &handle()).unwrap();
            let headers = headers.iter().copied().collect();
            let mut request = InferenceRequest { headers, ..InferenceRequest::default() };
            let mut candidates = Candidates::default();
            let producer = instance.roles.producer.unwrap();
            assert!(matches!(producer.produce(&mut request, &mut candidates), Produced::Ready(Ok(()))));
            request.attributes.get::<String>("SessionIDDataKey/mine").cloned()
        };
        let found = |value: &str| Some(value.to_owned());
        assert_eq!(session(json!({ "headerName": " X-S " }), &[("x-s", " 7 ")]), found("7"));
        assert_eq!(session(json!({ "headerName": "x-s" }), &[("x-s", "  ")]), None);
        let cookie = json!({ "cookieName": "sid" });
        assert_eq!(session(cookie.clone(), &[("cookie", "a=1; sid = x; sid=b=c; sid=d")]), found("b=c"));
        assert_eq!(session(cookie, &[("cookie", "SID=1")]), None);
        for bad in [json!({}), json!({ "headerName": "a", "cookieName": "b" })] {
            assert!(factory(TYPE, &Parameters::new(bad), &handle()).is_err());
        }
    }
}
