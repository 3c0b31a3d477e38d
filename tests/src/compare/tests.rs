use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn the_first_difference_names_its_place_and_both_values() {
    let cases = [
        (json!(1), json!(2), "then: want 1, got 2"),
        (json!({"a": {"b": [1, 2]}}), json!({"a": {"b": [1, 3]}}), "then.a.b[1]: want 2, got 3"),
        (json!({"a": 1}), json!({}), "then.a: want 1, got nothing"),
        (json!({}), json!({"a": null}), "then.a: want nothing, got null"),
        (json!([1, 2]), json!([1]), "then[1]: want 2, got the list's end"),
        (json!([1]), json!([1, 2]), "then[1]: want the list's end, got 2"),
        (json!({"b": 1, "a": 1}), json!({"b": 2, "a": 2}), "then.a: want 1, got 2"),
        (json!(1), json!("1"), "then: want 1, got \"1\""),
    ];
    for (want, got, text) in cases {
        assert_eq!(Rules::exact().difference(&want, &got).as_deref(), Some(text));
    }
}

#[test]
fn the_order_of_a_list_matters_and_that_of_a_named_set_does_not() {
    let (want, got) = (json!({"roles": ["a", "b", "b"]}), json!({"roles": ["b", "a", "b"]}));
    assert!(Rules::exact().difference(&want, &got).is_some());
    assert_eq!(Rules::exact().set("roles").difference(&want, &got), None);
}

#[test]
fn a_set_keeps_count_of_equal_elements() {
    let rules = Rules::exact().set("roles");
    let (two, one) = (json!({"roles": ["a", "a"]}), json!({"roles": ["a"]}));
    assert!(rules.difference(&two, &one).is_some_and(|text| text.contains("lacks")));
    assert!(rules.difference(&one, &two).is_some_and(|text| text.contains("too many")));
}

#[test]
fn a_flexible_element_of_a_set_leaves_the_strict_one_its_partner() {
    let rules = Rules::exact().set("set");
    let want = json!({"set": [{"any_of": [1, 2]}, 1]});
    assert_eq!(rules.difference(&want, &json!({"set": [1, 2]})), None);
    assert!(rules.difference(&want, &json!({"set": [2, 2]})).is_some());
}

#[test]
fn any_of_accepts_each_listed_value_and_no_other() {
    let want = json!({"order": {"any_of": [["a", "b"], ["b", "a"]]}});
    assert_eq!(Rules::exact().difference(&want, &json!({"order": ["b", "a"]})), None);
    assert!(Rules::exact().difference(&want, &json!({"order": ["a", "a"]})).is_some());
}

#[test]
fn an_object_with_more_than_any_of_is_an_object() {
    let want = json!({"any_of": [1], "note": 2});
    assert!(Rules::exact().difference(&want, &json!(1)).is_some());
    assert_eq!(Rules::exact().difference(&want, &want), None);
}

#[test]
fn floats_differ_by_the_tolerance_and_integers_not_at_all() {
    let rules = Rules::within(REWRITE_TOLERANCE);
    let third: f64 = 1.0 / 3.0;
    assert_eq!(rules.difference(&json!(third), &json!(third.next_up())), None);
    assert!(Rules::exact().difference(&json!(third), &json!(third.next_up())).is_some());
    assert!(rules.difference(&json!(third), &json!(third + 1e-9)).is_some());
    assert!(rules.difference(&json!(u64::MAX), &json!(u64::MAX - 1)).is_some());
    assert_eq!(rules.difference(&json!(1), &json!(1.0)), None);
}

#[test]
fn floats_that_json_cannot_carry_travel_as_text() {
    for (value, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "+Inf"), (f64::NEG_INFINITY, "-Inf")] {
        assert_eq!(float(value), json!(text));
        assert!(read_float(&json!(text)).is_some_and(|read| close(read, value, 0.0)));
    }
    assert_eq!(read_float(&json!("Inf")), None);
}

#[test]
fn an_ignored_member_may_differ_or_be_missing() {
    let rules = Rules::exact().ignore("at");
    let want = json!({"error": {"kind": "cycle", "at": "a"}});
    assert_eq!(rules.difference(&want, &json!({"error": {"kind": "cycle"}})), None);
    assert!(rules.difference(&want, &json!({"error": {"kind": "other", "at": "a"}})).is_some());
}

#[test]
fn a_long_value_is_cut_in_the_text_only() {
    let want = json!("é".repeat(1000));
    assert_eq!(Rules::exact().difference(&want, &want), None);
    let text = Rules::exact().difference(&want, &json!(0)).expect("the values differ");
    assert!(text.contains("(2002 bytes)") && text.chars().count() < 300, "{text}");
}

proptest! {
    #[test]
    fn a_written_float_reads_back_as_itself(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        let text = float(value).to_string();
        let read = read_float(&serde_json::from_str(&text).unwrap()).unwrap();
        prop_assert!(close(value, read, 0.0), "{value} became {read}");
    }

    #[test]
    fn a_set_equals_its_permutations(items in prop::collection::vec(0_u8..4, 0..8), turn in 0_usize..8) {
        let mut turned = items.clone();
        turned.rotate_left(turn.min(items.len()));
        turned.reverse();
        let rules = Rules::exact().set("set");
        prop_assert_eq!(rules.difference(&json!({"set": items}), &json!({"set": turned})), None);
    }
}
