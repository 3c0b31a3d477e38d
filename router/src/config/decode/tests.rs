use super::*;

#[derive(Debug, Default, PartialEq)]
struct Wheel {
    size: u64,
    label: Option<String>,
    turns: Vec<f64>,
    pause: Option<Duration>,
}

impl Decode for Wheel {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| Wheel {
            size: f.required("size"),
            label: f.optional("label"),
            turns: f.or_default("turns"),
            pause: f.optional("pause"),
        })
    }
}

fn problems(text: &str) -> String {
    decode::<Vec<Wheel>>("w.yaml", text).expect_err("must be refused").to_string()
}

#[test]
fn fields_decode_and_null_is_absence() {
    let wheels =
        decode::<Vec<Wheel>>("w", "- {size: 3, turns: [1, 0.5], pause: 1m30s}\n- {size: 4, label: null}\n");
    let first = Wheel { size: 3, label: None, turns: vec![1.0, 0.5], pause: Some(Duration::from_secs(90)) };
    assert_eq!(wheels, Ok(vec![first, Wheel { size: 4, ..Wheel::default() }]));
}

#[test]
fn every_problem_is_reported_with_its_place_and_path() {
    assert_eq!(
        problems("- {size: 3, lable: x}\n- {size: -1}\n- 7\n- {size: 1, turns: [a], pause: 5}\n"),
        "w.yaml:1:13: [0].lable: unknown field \"lable\"; did you mean \"label\"?; accepted: size, label, turns, pause\n\
         w.yaml:2:10: [1].size: expected an integer of at least 0, found the number -1\n\
         w.yaml:3:3: [2]: expected a mapping, found the number 7\n\
         w.yaml:4:21: [3].turns[0]: expected a number, found the text \"a\"\n\
         w.yaml:4:32: [3].pause: expected a text, found the number 5"
    );
}

#[test]
fn a_missing_field_is_named() {
    assert_eq!(problems("- {label: x}\n"), "w.yaml:1:3: [0].size: missing field \"size\"");
}

#[test]
fn a_bare_boolean_for_a_text_says_to_quote_it() {
    assert!(problems("- {size: 1, label: no}\n").contains("quote it"));
}

#[test]
fn json_reports_duplicate_fields_where_fields_are_known() {
    let found = decode::<Wheel>("w", "{\"size\": 1, \"size\": 2}").expect_err("must be refused");
    assert_eq!(found.to_string(), "w:1:13: size: duplicate key \"size\", first given at 1:2");
    let free = decode::<BTreeMap<String, i64>>("w", "{\"a\": 1, \"a\": 2}").expect("free keys may repeat");
    assert_eq!(free["a"], 2);
}
