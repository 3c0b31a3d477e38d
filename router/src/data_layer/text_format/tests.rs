use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Exposition, SyntaxError> {
    Exposition::parse(Bytes::copy_from_slice(text.as_bytes()))
}

/// Value and timestamp of the samples of family `m`.
fn samples(text: &str) -> Vec<(f64, Option<i64>)> {
    let exposition = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    exposition
        .family("m")
        .map_or_else(Vec::new, |family| family.samples().map(|s| (s.value, s.timestamp)).collect())
}

#[test]
fn tolerant_where_the_format_is() {
    for (text, value) in [
        ("m 5\n", 5.0),
        ("  m\t 5\n", 5.0),
        ("m{} 5\n", 5.0),
        ("m{a=\"b\",} 5\n", 5.0),
        ("m{ a = \"b\" , c=\"d\" } 5\n", 5.0),
        ("m{a=\"b\"}5\n", 5.0),
        ("m{a=\"b\\\"c\\\\d\\ne\"} 5\n", 5.0),
        ("m{a=\"größe\"} 5\n", 5.0),
        ("m +12\n", 12.0),
        ("m -1.5E2\n", -150.0),
        ("m .5\n", 0.5),
        ("m 5.\n", 5.0),
        ("m INF\n", f64::INFINITY),
        ("m -infinity\n", f64::NEG_INFINITY),
        ("# EOF\nm 5\n", 5.0),
        ("#\n# \n#TYPE m gauge\n# UNIT m x\n# HELP m\n# TYPE\nm 5\n", 5.0),
        ("#  TYPE  m \t GAUGE\nm 5\n", 5.0),
        ("# TYPE m\nm 5\n", 5.0),
        ("# HELP m a\\\\b\\n\nm 5\n", 5.0),
        ("# HELP m \n# HELP m\n# HELP m x\nm 5\n", 5.0),
        ("# TYPE m histogram\nm_bucket 5\n", 5.0),
        ("m 5\n\n  \n\t", 5.0),
    ] {
        assert_eq!(samples(text), [(value, None)], "{text:?}");
    }
    assert!(samples("m NaN\n")[0].0.is_nan());
    assert_eq!(samples(""), []);
    assert_eq!(samples("# TYPE m gauge\n"), []);
}

#[test]
fn strict_everywhere_else() {
    use Reason::*;
    for (text, line, reason) in [
        ("m 5", 1, EndOfInput),
        ("x 1\n# EOF", 2, EndOfInput),
        ("m{", 1, EndOfInput),
        ("m 5\r\n", 1, Value),
        ("m 5 \n", 1, Timestamp),
        ("m 5 1 \n", 1, AfterTimestamp),
        ("m 5 1 2\n", 1, AfterTimestamp),
        ("m 5 1.5\n", 1, Timestamp),
        ("m 5 9223372036854775808\n", 1, Timestamp),
        ("m 0x10\n", 1, Value),
        ("m 1_000\n", 1, Value),
        ("m 1e999\n", 1, Value),
        ("m +nan\n", 1, Value),
        ("m three\n", 1, Value),
        ("m\n", 1, Value),
        ("m 1 # {a=\"b\"} 1\n", 1, Timestamp),
        ("a.b 1\n", 1, Value),
        ("\n1m 1\n", 2, MetricName),
        ("{a=\"b\"} 1\n", 1, MetricName),
        ("# TYPE m gauge\n# TYPE m gauge\n", 2, SecondType),
        ("m 1\n# TYPE m gauge\n", 2, SecondType),
        ("# HELP m a\n# HELP m b\n", 2, SecondHelp),
        ("# HELP m \\q\n", 1, HelpEscape),
        ("# TYPE m info\n", 1, UnknownType),
        ("# TYPE m gauge extra\n", 1, UnknownType),
        ("# TYPE \"a.b\" gauge\n", 1, CommentName),
        ("# TYPE a.b gauge\n", 1, CommentName),
        ("m{a=b} 1\n", 1, Quote),
        ("m{a} 1\n", 1, Equals),
        ("m{a=\"b\";} 1\n", 1, AfterLabel),
        ("m{,} 1\n", 1, LabelName),
        ("m{größe=\"x\"} 1\n", 1, Equals),
        ("m{a=\"b\",a=\"c\"} 1\n", 1, DuplicateLabel),
        ("m{__name__=\"x\"} 1\n", 1, ReservedLabel),
        ("m{a=\"\\q\"} 1\n", 1, LabelValue),
        ("m{a=\"x\ny\"} 1\n", 1, LabelValue),
        ("# TYPE h histogram\nh_bucket{le=\"x\"} 1\n", 2, Bound),
        ("# TYPE s summary\ns{quantile=\"x\"} 1\n", 2, Bound),
    ] {
        assert_eq!(parse(text).unwrap_err(), SyntaxError { line, reason }, "{text:?}");
    }
    let invalid = Bytes::from_static(b"m{a=\"\xff\"} 1\n");
    assert_eq!(Exposition::parse(invalid).unwrap_err().reason, LabelValue);
}

#[test]
fn a_duplicate_is_found_among_many_labels() {
    let labels: Vec<String> = (0..99).map(|i| format!("l{i}=\"\"")).collect();
    assert!(parse(&format!("m{{{}}} 1\n", labels.join(","))).is_ok());
    for again in ["l0", "l63", "l64", "l98"] {
        let error = parse(&format!("m{{{},{again}=\"\"}} 1\n", labels.join(","))).unwrap_err();
        assert_eq!(error.reason, Reason::DuplicateLabel, "{again}");
    }
}

#[test]
fn what_the_line_before_had_is_checked_again_where_that_matters() {
    use Reason::*;
    for (text, line, reason) in [
        ("m{a=\"1\",b=\"2\"} 1\nm{a=\"1\",b=\"3\",b=\"2\"} 1\n", 2, DuplicateLabel),
        ("m{a=\"1\",b=\"2\"} 1\nm{b=\"1\",b=\"2\"} 1\n", 2, DuplicateLabel),
        ("m{a=\"1\",b=\"2\"} 1\nm{a=\"1\",b=\"2\"x} 1\n", 2, AfterLabel),
        ("# TYPE h histogram\nm{le=\"x\"} 1\nh_bucket{le=\"x\"} 1\n", 3, Bound),
    ] {
        assert_eq!(parse(text).unwrap_err(), SyntaxError { line, reason }, "{text:?}");
    }
    let text =
        "m{a=\"1\",b=\"2\"} 1\nm{a=\"1\"} 2\nm{a=\"1\",b=\"2\",} 3\nm{b=\"2\",a=\"1\"} 4\nm 5\nm{} 6\n";
    assert_eq!(samples(text).len(), 6);
}

#[test]
fn samples_of_a_family_may_be_anywhere() {
    let text = "m{a=\"0\"} 3\n# HELP m late\n\nm{a=\"1\"} 4 7\nother 1\n m{a=\"2\"} 5 -8\n";
    assert_eq!(samples(text), [(3.0, None), (4.0, Some(7)), (5.0, Some(-8))]);
}

#[test]
fn parts_belong_to_a_histogram_or_summary_that_is_declared() {
    let text = "# TYPE h histogram\nh_bucket{le=\"1\",x=\"y\"} 2\nh_sum 4\nh_count 3\n\
                # TYPE s summary\ns{quantile=\"0.5\"} 2\ns_sum 1\ns_count 1\n\
                g_sum 1\n# TYPE c counter\nc_count 1\n";
    let exposition = parse(text).unwrap();
    let of = |name| exposition.family(name).map(|family| (family.kind(), family.samples().count()));
    assert_eq!(of("h"), Some((Kind::Histogram, 3)));
    assert_eq!(of("h_sum"), None);
    assert_eq!(of("s"), Some((Kind::Summary, 3)));
    assert_eq!(of("g_sum"), Some((Kind::Untyped, 1)));
    assert_eq!(of("c"), None);
    assert_eq!(of("c_count"), Some((Kind::Untyped, 1)));
    let bucket = exposition.family("h").unwrap().samples().next().unwrap();
    assert_eq!(bucket.labels.get("x").as_deref(), Some("y"));
    assert_eq!(bucket.labels.get("le"), None, "a bound is no label");
}

#[test]
fn label_values_are_unescaped() {
    let exposition = parse("m{a=\"b\\\"c\\\\nd\\ne\",empty=\"\"} 5\n").unwrap();
    let labels = exposition.family("m").unwrap().samples().next().unwrap().labels;
    assert_eq!(labels.get("a").as_deref(), Some("b\"c\\nd\ne"));
    assert_eq!(labels.get("empty").as_deref(), Some(""));
    assert_eq!(labels.get("absent"), None);
}

/// Lines that are nearly right.
fn lines() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("m"),
        Just("h_bucket"),
        Just("{"),
        Just("}"),
        Just("a=\"b\""),
        Just(","),
        Just(" "),
        Just("\t"),
        Just("1"),
        Just("-2.5e3"),
        Just("NaN"),
        Just("\n"),
        Just("# TYPE "),
        Just("# HELP "),
        Just("histogram"),
        Just("gauge"),
        Just("\\"),
        Just("\""),
        Just("le="),
        Just("ß"),
        Just("\r"),
        Just("_sum"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// One well-formed sample of family `m`, and what it says.
fn sample() -> impl Strategy<Value = (String, f64, Option<i64>, String)> {
    let value = prop_oneof![any::<i32>().prop_map(f64::from), -1e9..1e9, Just(f64::INFINITY)];
    let label = "[ -~ß]{0,8}";
    (value, proptest::option::of(any::<i64>()), label).prop_map(|(value, timestamp, label)| {
        let escaped = label.replace('\\', "\\\\").replace('"', "\\\"");
        let stamp = timestamp.map_or_else(String::new, |stamp| format!(" {stamp}"));
        (format!("m{{l=\"{escaped}\"}} {value}{stamp}\n"), value, timestamp, label)
    })
}

proptest! {
    #[test]
    fn bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(exposition) = Exposition::parse(body.into()) {
            exposition.family("m").map(|family| family.samples().count());
        }
    }

    #[test]
    fn every_accepted_line_decodes(body in lines()) {
        if let Ok(exposition) = parse(&body) {
            let decoded: usize = exposition
                .families
                .iter()
                .map(|entry| Family { exposition: &exposition, entry }.samples().count())
                .sum();
            let lines = body.lines().map(|line| line.trim_matches([' ', '\t']));
            prop_assert_eq!(decoded, lines.filter(|line| !line.is_empty() && !line.starts_with('#')).count());
        }
    }

    #[test]
    fn what_is_written_is_read(written in proptest::collection::vec((sample(), any::<bool>()), 0..10)) {
        let mut body = String::new();
        for ((line, ..), other) in &written {
            body.push_str(line);
            if *other {
                body.push_str("other 1\n# comment\n\n");
            }
        }
        let exposition = parse(&body).unwrap();
        let read: Vec<_> = exposition.family("m").into_iter().flat_map(|family| family.samples()).collect();
        prop_assert_eq!(read.len(), written.len());
        for (sample, ((_, value, timestamp, label), _)) in read.iter().zip(&written) {
            prop_assert_eq!(sample.value, *value);
            prop_assert_eq!(sample.timestamp, *timestamp);
            prop_assert_eq!(sample.labels.get("l").unwrap(), label.as_str());
        }
    }
}
