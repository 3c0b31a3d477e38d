use proptest::prelude::*;

use super::*;
use crate::workload::Segment;

const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens";
const GOOD: &str = r#"{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 2353, 2354]}"#;

fn reader(text: &str) -> Result<TraceReader, InputError> {
    TraceReader::from_reader("t", Box::new(std::io::Cursor::new(text.to_owned().into_bytes())))
}

fn rows(text: &str) -> Vec<Request> {
    reader(text).unwrap().map(|row| row.unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Reads until the error that must come.
fn refusal(text: &str) -> String {
    match reader(text) {
        Ok(mut rows) => {
            let error = rows.find_map(Result::err).unwrap_or_else(|| panic!("accepted: {text}"));
            assert!(rows.next().is_none(), "the iterator ends with its first error");
            error.to_string()
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_mooncake_row_is_a_chain_of_blocks_with_a_partial_last_one() {
    let second = GOOD.replace("27482", "27482.5");
    let rows = rows(&format!("{GOOD}\n\n{second}\n"));
    assert_eq!(reader(GOOD).unwrap().format(), TraceFormat::Mooncake);
    assert_eq!((rows[0].index, rows[0].arrival, rows[0].output_tokens), (0, Duration::ZERO, 52));
    assert_eq!((rows[1].index, rows[1].arrival), (1, Duration::from_micros(500)));
    assert_eq!(rows[0].prompt.tokens(), 6955);
    assert_eq!(rows[0].prompt.segments()[0], Segment { id: 46, tokens: 512 });
    assert_eq!(rows[0].prompt.segments()[13], Segment { id: 2354, tokens: 6955 - 13 * 512 });
}

#[test]
fn a_key_that_stands_twice_is_refused_with_its_place() {
    let twice = GOOD.replace("\"output_length\": 52", "\"output_length\": 52, \"timestamp\": 27483");
    let error = refusal(&format!("{GOOD}\n{twice}"));
    assert!(error.starts_with("t:2:"), "{error}");
    assert!(error.contains("not a row: the key \"timestamp\" stands twice; accepted: "), "{error}");
}

#[test]
fn a_header_without_rows_is_refused() {
    for text in [HEADER.to_owned(), format!("{HEADER}\n\n \n")] {
        assert!(refusal(&text).ends_with("the trace has a header and no rows; accepted: at least one row"));
    }
}

#[test]
fn an_azure_row_has_a_prompt_of_its_own() {
    let text = format!(
        "{HEADER}\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:46.6805900,396,109\r\n\
         2023-11-17 00:00:00.0000001,879,55"
    );
    let rows = rows(&text);
    assert_eq!(reader(&text).unwrap().format(), TraceFormat::Azure);
    assert_eq!((rows[0].prompt.tokens(), rows[0].output_tokens), (374, 44));
    assert_eq!(rows[1].arrival, Duration::ZERO, "equal times keep file order");
    let day_end =
        Duration::from_nanos(86_400_000_000_100 - (18 * 3600 + 15 * 60 + 46) * 1_000_000_000 - 680_590_000);
    assert_eq!(rows[2].arrival, day_end);
    assert_ne!(rows[0].prompt.segments()[0].id, rows[1].prompt.segments()[0].id);
}

#[test]
fn azure_columns_are_found_by_name_and_offsets_are_allowed() {
    let rows =
        rows("Extra,GeneratedTokens,TIMESTAMP,ContextTokens\nx,2,2024-05-10 00:00:00.009930+00:00,3\n");
    assert_eq!((rows[0].prompt.tokens(), rows[0].output_tokens), (3, 2));
}

#[test]
fn a_bad_trace_is_refused_with_file_line_field_and_what_is_accepted() {
    let formats = "accepted: Mooncake JSONL (timestamp, input_length, output_length, hash_ids) or Azure CSV \
                   (TIMESTAMP,ContextTokens,GeneratedTokens)";
    let row =
        r#"accepted: {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [ids]}"#;
    let count = "is no number of tokens; accepted: a whole number from 1 to 10000000";
    let edit = |from: &str, to: &str| format!("{GOOD}\n{}\n", GOOD.replace(from, to));
    let azure = |row: &str| format!("{HEADER}\n2023-11-16 18:15:46.68,374,44\n{row}\n");
    for (text, message) in [
        (String::new(), format!("t:1: the trace is empty; {formats}")),
        (
            "a,b\n1,2\n".to_owned(),
            format!("t:1: the first line is neither a JSON object nor a header with the column TIMESTAMP; {formats}"),
        ),
        (
            format!("{GOOD}\n{}", &GOOD[..40]),
            format!("t:2:40: the line is truncated; {row}"),
        ),
        (format!("{GOOD}\n[1]\n"), format!("t:2: not a row: invalid type: sequence, expected a JSON object; {row}")),
        (edit("output_length", "output"), format!("t:2: output_length: missing; {row}")),
        (edit("6955", "-6955"), format!("t:2: input_length: -6955 {count}")),
        (edit("6955", "1e30"), format!("t:2: input_length: 1e+30 {count}")),
        (edit(": 52,", ": 0,"), format!("t:2: output_length: 0 {count}")),
        (edit(": 52,", ": \"52\","), format!("t:2: output_length: \"52\" {count}")),
        (
            edit("[46,", "["),
            "t:2: hash_ids: 13 ids for 6955 tokens; accepted: 14, one for each 512 tokens".to_owned(),
        ),
        (edit("[46,", "[-46,"), "t:2: hash_ids: -46 is no id; accepted: whole numbers from 0".to_owned()),
        (
            edit("27482", "-1"),
            "t:2: timestamp: -1 is no time; accepted: milliseconds from 0 to 315360000000".to_owned(),
        ),
        (
            edit("27482", "27481"),
            "t:2: timestamp: arrives 1ms before the row above it; accepted: rows in the order of their times"
                .to_owned(),
        ),
        (azure("2023-11-16 18:15:47,1"), "t:3: 2 columns; accepted: 3, as in the header".to_owned()),
        (azure("2023-11-16 18:15:47,x,1"), format!("t:3: ContextTokens: \"x\" {count}")),
        (azure("2023-11-16 18:15:47,1,-1"), format!("t:3: GeneratedTokens: \"-1\" {count}")),
        (
            azure("2023-13-16 18:15:47,1,1"),
            "t:3: TIMESTAMP: \"2023-13-16 18:15:47\" is no time; accepted: YYYY-MM-DD hh:mm:ss.fraction from 1970 on"
                .to_owned(),
        ),
        (
            azure("2023-11-16 18:15:46,1,1"),
            "t:3: TIMESTAMP: arrives 680ms before the row above it; accepted: rows in the order of their times"
                .to_owned(),
        ),
        (
            azure("2043-11-16 18:15:46,1,1"),
            "t:3: TIMESTAMP: arrives more than ten years after the first row; accepted: traces of at most ten years"
                .to_owned(),
        ),
    ] {
        assert_eq!(refusal(&text), message);
    }
}

#[test]
fn lines_that_never_end_and_bytes_that_are_no_text_are_refused() {
    let endless = std::io::BufReader::new(std::io::repeat(b'{'));
    let error = TraceReader::from_reader("t", Box::new(endless)).unwrap_err().to_string();
    assert_eq!(error, "t:1: the line is too long; accepted: at most 4194304 bytes a line");
    let error = TraceReader::from_reader("t", Box::new(&b"{\xff"[..])).unwrap_err().to_string();
    assert_eq!(error, "t:1:2: not valid UTF-8; accepted: text");
    let missing = TraceReader::open(Path::new("no/such/trace")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such/trace: cannot read the trace: "), "{missing}");
}

/// Row counts of the published traces, where they are at hand.
#[test]
fn the_published_traces_are_read_whole() {
    for (file, requests, prompt_tokens) in [
        ("mooncake_conversation.jsonl", 12_031, Some(12_035)),
        ("mooncake_synthetic.jsonl", 3_993, None),
        ("azure_2023_conv.csv", 19_366, None),
        ("azure_2023_code.csv", 8_819, None),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces").join(file);
        if !path.exists() {
            eprintln!("skipped: {} is not here", path.display());
            continue;
        }
        let (mut count, mut tokens) = (0u64, 0u64);
        for request in TraceReader::open(&path).unwrap() {
            let request = request.unwrap();
            assert_eq!(request.index, count);
            count += 1;
            tokens += u64::from(request.prompt.tokens());
        }
        assert_eq!(count, requests, "{file}");
        if let Some(mean) = prompt_tokens {
            assert_eq!(tokens / count, mean, "{file}: mean prompt");
        }
    }
}

proptest! {
    #[test]
    fn no_input_panics(lines in proptest::collection::vec(
        prop_oneof![
            Just(GOOD.to_owned()),
            Just(HEADER.to_owned()),
            "[ -~]{0,60}",
            r#"\{"timestamp": [-0-9e.]{1,8}, "input_length": [0-9]{1,12}, "output_length": [-0-9]{1,4}, "hash_ids": \[[0-9,]{0,9}\]\}"#,
            "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{0,12},[-0-9]{1,12},[0-9]{1,3}",
        ],
        0..6,
    )) {
        if let Ok(rows) = reader(&lines.join("\n")) {
            let mut last = Duration::ZERO;
            for row in rows.flatten() {
                prop_assert!(row.arrival >= last);
                prop_assert!(row.prompt.tokens() >= 1 && row.output_tokens >= 1);
                last = row.arrival;
            }
        }
    }
}
