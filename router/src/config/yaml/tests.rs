use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> (Option<Node>, Problems) {
    let mut problems = Problems::new("f");
    let node = parse(text, &mut problems);
    (node, problems)
}

fn value(text: &str) -> Value {
    let (node, problems) = read(text);
    assert_eq!(problems.to_string(), "", "{text:?}");
    node.expect("no problem was reported").to_json()
}

fn refused(text: &str) -> String {
    let (_, problems) = read(text);
    assert!(!problems.is_empty(), "{text:?} was read");
    problems.to_string()
}

#[test]
fn a_text_of_one_document_only_has_no_second() {
    let only = |text: &str| {
        let mut problems = Problems::new("f");
        let node = parse_only(text, &mut problems);
        (node.is_some(), problems.to_string())
    };
    for text in ["", "a: 1\n", "---\na: 1\n...\n", "a: 1\n# ---\n", "{\"a\": 1}", "\u{feff}a: |\n  ---\n"] {
        assert_eq!(only(text), (true, String::new()), "{text:?}");
    }
    assert_eq!(
        only("a: 1\n---\nb: 2\n"),
        (false, "f:2:1: a second document begins here; accepted: one".into())
    );
    assert_eq!(only("a: 1\n---\n").1, "f:2:1: a second document begins here; accepted: one");
    assert!(only("a: 1\n--- [\n").1.starts_with("f:2:1: a second"));
    assert!(only("--- {a: 1}\n]\n").1.starts_with("f:2:1: not valid YAML"), "{}", only("--- {a: 1}\n]\n").1);
}

#[test]
fn yaml_becomes_json_values() {
    for (text, means) in [
        ("", json!(null)),
        ("# only a comment\n", json!(null)),
        ("---\n", json!(null)),
        ("a: 1\nb: [x, 'y', 010]\n", json!({"a": 1, "b": ["x", "y", 8]})),
        ("a: &x {p: 1}\nb: *x\n", json!({"a": {"p": 1}, "b": {"p": 1}})),
        ("a: &x {p: 1}\nb: {<<: *x, q: 2}\n", json!({"a": {"p": 1}, "b": {"p": 1, "q": 2}})),
        ("b: {<<: [{p: 1}, {q: 2}]}", json!({"b": {"p": 1, "q": 2}})),
        ("\"y\": !!str 5\n", json!({"y": "5"})),
        ("8000: x\nno: z\n", json!({"8000": "x", "false": "z"})),
        ("t: |\n  two\n  lines\n", json!({"t": "two\nlines\n"})),
        ("\u{feff}a: 1", json!({"a": 1})),
    ] {
        assert_eq!(value(text), means, "{text:?}");
    }
}

#[test]
fn only_the_first_document_is_read() {
    assert_eq!(value("a: 1\n---\na: 2\n"), json!({"a": 1}));
    assert_eq!(value("a: 1\n---\n: : [ broken\n"), json!({"a": 1}));
    assert_eq!(value("---\n---\na: 1\n"), json!(null));
}

#[test]
fn a_text_that_begins_with_a_brace_is_json_and_nothing_else() {
    assert_eq!(value(" {\"a\": [1, 4.0, \"x\\u00e9\\/\"]}\n"), json!({"a": [1, 4.0, "x\u{e9}/"]}));
    assert!(refused("{a: 1}").starts_with("f:1:2: not valid JSON"));
    assert!(refused("{\"a\": 1}\n{\"b\": 2}").starts_with("f:2:1: not valid JSON"));
    assert!(refused("{\"a\": 1e999}").starts_with("f:1:7: not valid JSON"));
}

#[test]
fn a_float_without_a_fraction_is_an_integer_in_yaml_and_a_float_in_json() {
    assert_eq!(value("a: 4.0").to_string(), "{\"a\":4}");
    assert_eq!(value("{\"a\": 4.0}").to_string(), "{\"a\":4.0}");
}

#[test]
fn places_point_at_what_was_written() {
    let place = |line, column| Position { line, column };
    for text in ["k:\n  - x\n  - {n: 1}\n", "{\"k\":\n [\"x\",\n  {\"n\": 1}]}"] {
        let (node, _) = read(text);
        let Some(Content::Map(entries)) = node.map(|n| n.content) else { panic!("{text}") };
        let Content::List(items) = &entries[0].value.content else { panic!("{text}") };
        let Content::Map(inner) = &items[1].content else { panic!("{text}") };
        let places = [entries[0].at, items[0].at, inner[0].at, inner[0].value.at];
        let expected = if text.starts_with('{') {
            [place(1, 2), place(2, 3), place(3, 4), place(3, 9)]
        } else {
            [place(1, 1), place(2, 5), place(3, 6), place(3, 9)]
        };
        assert_eq!(places, expected, "{text}");
    }
}

#[test]
fn duplicate_keys_are_reported_all_and_the_rest_is_read() {
    let (node, problems) = read("a: 1\nb: {c: 1, c: 2}\na: 3\n");
    assert_eq!(node.expect("read").to_json(), json!({"a": 3, "b": {"c": 2}}));
    assert_eq!(
        problems.to_string(),
        "f:2:11: c: duplicate key \"c\", first given at 2:5\nf:3:1: a: duplicate key \"a\", first given at 1:1"
    );
    assert!(refused("a: &x {p: 1}\nb: {<<: *x, p: 2}\n").contains("duplicate key \"p\""));
}

#[test]
fn broken_text_is_refused_with_its_place() {
    for (text, place) in [
        ("a: [1, 2\n", "f:2:1: "),
        ("a: *nowhere\n", "f:1:4: "),
        ("a: &x [*x]\n", "f:1:8: the alias stands inside"),
        ("plugins:\n\t- a\n", "f:2:"),
        ("a: .inf\n", "f:1:4: infinity"),
        ("a: !!int x\n", "f:1:"),
        ("? [a]\n: 1\n", "f:1:3: a key must be"),
        ("a: {<<: 7}\n", "f:1:9: \"<<\" merges"),
    ] {
        let message = refused(text);
        assert!(message.starts_with(place), "{text:?}: {message}");
    }
}

#[test]
fn nesting_and_aliases_are_bounded() {
    let nested = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    assert!(read(&nested("[", "]", MAX_DEPTH)).1.is_empty());
    assert!(refused(&nested("[", "]", MAX_DEPTH + 1)).contains("nest deeper"));
    assert!(refused(&nested("{\"a\":", "}", 5_000).replace(":}", ":1}")).contains("nest deeper"));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..10 {
        let alias = format!("*a{}", i - 1);
        bomb.push_str(&format!("a{i}: &a{i} [{}]\n", vec![alias; 10].join(", ")));
    }
    assert!(refused(&bomb).contains("aliases add more than"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(|f| Value::from(f.trunc() + 0.5)),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}|[-:{}\\[\\]&*!|>'\" \n\ta-c0-9,?<]{0,60}") {
        let (node, problems) = read(&text);
        prop_assert!(node.is_some() || !problems.is_empty());
    }

    #[test]
    fn json_reads_as_itself_by_both_readers(value in any_json()) {
        let object = json!({"v": value});
        let text = object.to_string();
        prop_assert_eq!(&self::value(&text), &object);
        // Behind a document marker the same text is YAML flow syntax.
        prop_assert_eq!(&self::value(&format!("---\n{text}\n")), &object);
    }
}
