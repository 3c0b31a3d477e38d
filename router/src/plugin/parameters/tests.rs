use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::config::shape::Field;

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Sample {
    max_count: i64,
    ratio: f64,
    label: String,
    inner: Inner,
    conditions: Vec<Inner>,
    limit: Option<u64>,
    free: BTreeMap<String, String>,
    mode: Mode,
}

#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Inner {
    url: String,
    wait: Option<i64>,
}

#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Least,
    Most,
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            max_count: 5,
            ratio: 0.8,
            label: "role".into(),
            inner: Inner::default(),
            conditions: Vec::new(),
            limit: None,
            free: BTreeMap::new(),
            mode: Mode::Least,
        }
    }
}

fn decode(value: Value) -> Result<Sample, ParameterError> {
    Parameters::new(value).decode()
}

#[test]
fn a_factory_tells_what_it_decodes() {
    let shape = Parameters::shape_for(|parameters| drop(parameters.decode::<Sample>()));
    let inner = |defaults: bool| {
        let mut url = Field::new("url", Shape::Text);
        url.default = defaults.then(|| json!(""));
        Shape::Fields(vec![url, Field::new("wait", Shape::Integer)])
    };
    let field = |key, shape, default: Value| Field { default: Some(default), ..Field::new(key, shape) };
    let expected = Shape::Fields(vec![
        field("maxCount", Shape::Integer, json!(5)),
        field("ratio", Shape::Number, json!(0.8)),
        field("label", Shape::Text, json!("role")),
        Field::new("inner", inner(true)),
        field("conditions", Shape::List(Box::new(inner(false))), json!([])),
        Field::new("limit", Shape::Integer),
        field("free", Shape::Map(Box::new(Shape::Text)), json!({})),
        field("mode", Shape::Choice(vec!["least", "most"]), json!("least")),
    ]);
    assert_eq!(shape, Some(expected));
    assert_eq!(Parameters::shape_for(|_| ()), None, "a factory that decodes nothing takes none");
}

#[test]
fn absent_null_and_empty_are_the_defaults() {
    assert_eq!(Parameters::absent().decode(), Ok(Sample::default()));
    assert_eq!(decode(Value::Null), Ok(Sample::default()));
    assert_eq!(decode(json!({})), Ok(Sample::default()));
}

#[test]
fn field_names_match_in_any_case_at_every_depth_but_free_keys_stay() {
    let sample = decode(json!({
        "MAXCOUNT": 7, "Ratio": 1, "inner": {"URL": "u"}, "conditions": [{"Wait": 3}], "free": {"Key": "v"},
        "limit": 9, "mode": "most"
    }));
    let expected = Sample {
        max_count: 7,
        ratio: 1.0,
        inner: Inner { url: "u".into(), wait: None },
        conditions: vec![Inner { url: String::new(), wait: Some(3) }],
        limit: Some(9),
        free: BTreeMap::from([("Key".into(), "v".into())]),
        mode: Mode::Most,
        ..Sample::default()
    };
    assert_eq!(sample, Ok(expected));
}

#[test]
fn null_leaves_the_default_and_zero_overrides_it() {
    let sample = decode(json!({"maxCount": null, "label": "", "ratio": 0})).expect("accepted");
    assert_eq!((sample.max_count, sample.label.as_str(), sample.ratio), (5, "", 0.0));
}

#[test]
fn the_last_of_two_spellings_counts() {
    assert_eq!(decode(json!({"MaxCount": 1, "maxCount": 2})).expect("accepted").max_count, 2);
}

#[test]
fn what_does_not_fit_is_refused_with_its_path() {
    for (value, message) in [
        (json!([]), "expected a mapping, found a list"),
        (json!("text"), "expected a mapping, found a text"),
        (json!(7), "expected a mapping, found a number"),
        (json!({"maxCount": 4.0}), "maxCount: invalid type: floating point `4.0`, expected i64"),
        (json!({"maxCount": "4"}), "maxCount: invalid type: string \"4\", expected i64"),
        (json!({"ratio": true}), "ratio: invalid type: boolean `true`, expected f64"),
        (json!({"limit": -1}), "limit: invalid value: integer `-1`, expected u64"),
        (json!({"Inner": []}), "Inner: expected a mapping, found a list"),
        (
            json!({"conditions": [{}, {"ulr": "x"}]}),
            "conditions[1].ulr: unknown field \"ulr\"; did you mean \"url\"?; accepted: url, wait",
        ),
        (json!({"mode": "worst"}), "mode: unknown variant `worst`, expected `least` or `most`"),
    ] {
        assert_eq!(decode(value).expect_err("refused").to_string(), message);
    }
}
