use std::fmt;

use super::mooncake::BLOCK_TOKENS;
use crate::workload::{Request, Segment};

/// The bits of an id that every reader of JSON keeps.
const ID_BITS: u64 = (1 << 53) - 1;

/// A request as a row of a Mooncake trace; displays as one line of JSON.
///
/// Equal prefixes of whole blocks of 512 tokens have equal ids, and other blocks have others; what prompts share of
/// a part of a block is lost.
#[derive(Debug)]
pub struct MooncakeRow<'a>(pub &'a Request);

impl fmt::Display for MooncakeRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { arrival, prompt, output_tokens, .. } = self.0;
        let nanos = arrival.as_nanos();
        write!(f, "{{\"timestamp\": {}", nanos / 1_000_000)?;
        let fraction = nanos % 1_000_000;
        if fraction > 0 {
            write!(f, ".{}", format!("{fraction:06}").trim_end_matches('0'))?;
        }
        write!(f, ", \"input_length\": {}, \"output_length\": {output_tokens}", prompt.tokens())?;
        f.write_str(", \"hash_ids\": [")?;
        for (index, id) in Blocks::new(prompt.segments()).enumerate() {
            write!(f, "{}{id}", if index > 0 { ", " } else { "" })?;
        }
        f.write_str("]}")
    }
}

/// The ids of the blocks of a prompt, each a hash of all tokens up to its end.
struct Blocks<'a> {
    segments: &'a [Segment],
    /// Tokens of the first segment that lie in blocks before.
    used: u32,
    prefix: u64,
}

impl<'a> Blocks<'a> {
    fn new(segments: &'a [Segment]) -> Self {
        Blocks { segments, used: 0, prefix: 0 }
    }
}

impl Iterator for Blocks<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut room = BLOCK_TOKENS;
        while room > 0
            && let Some((segment, rest)) = self.segments.split_first()
        {
            let tokens = (segment.tokens - self.used).min(room);
            // Which tokens of its segment a piece holds says what they are.
            let from = Segment { id: segment.id, tokens: self.used };
            self.prefix = Segment { tokens, ..*segment }.chained(from.chained(self.prefix));
            room -= tokens;
            self.used += tokens;
            if self.used == segment.tokens {
                (self.segments, self.used) = (rest, 0);
            }
        }
        (room < BLOCK_TOKENS).then_some(self.prefix & ID_BITS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::workload::{Prompt, TraceReader};

    fn request(nanos: u64, segments: &[(u64, u32)]) -> Request {
        let segments: Vec<Segment> = segments.iter().map(|&(id, tokens)| Segment { id, tokens }).collect();
        let arrival = Duration::from_nanos(nanos);
        Request { index: 0, arrival, prompt: Prompt::new(segments), output_tokens: 7, tenant: None }
    }

    fn read_back(rows: &[Request]) -> Vec<Request> {
        let text: String = rows.iter().map(|row| format!("{}\n", MooncakeRow(row))).collect();
        let reader =
            TraceReader::from_reader("t", Box::new(std::io::Cursor::new(text.into_bytes()))).unwrap();
        reader.map(|row| row.unwrap_or_else(|error| panic!("{error}"))).collect()
    }

    fn ids(request: &Request) -> Vec<u64> {
        Blocks::new(request.prompt.segments()).collect()
    }

    #[test]
    fn a_row_is_json_with_the_time_to_the_nanosecond() {
        let row = MooncakeRow(&request(1_500_000, &[(1, 10)])).to_string();
        assert!(
            row.starts_with(
                "{\"timestamp\": 1.5, \"input_length\": 10, \"output_length\": 7, \"hash_ids\": ["
            )
        );
        assert!(MooncakeRow(&request(3_000_000, &[(1, 10)])).to_string().starts_with("{\"timestamp\": 3, "));
    }

    #[test]
    fn prompts_share_ids_as_far_as_they_share_whole_blocks() {
        let [one, longer, other] = [&[(1, 512), (2, 600)][..], &[(1, 512), (2, 1024)], &[(1, 511), (2, 600)]]
            .map(|segments| request(0, segments));
        let (one, longer, other) = (ids(&one), ids(&longer), ids(&other));
        assert_eq!((one.len(), longer.len(), other.len()), (3, 3, 3));
        assert_eq!(one[..2], longer[..2]);
        assert_ne!(one[2], longer[2]);
        assert!(other.iter().all(|id| !one.contains(id)));
    }

    proptest! {
        /// Two prompts read back agree in as many whole blocks as they did.
        #[test]
        fn what_is_read_back_is_what_was_written(
            first in prop::collection::vec((0u64..3, 1u32..1500), 1..5),
            second in prop::collection::vec((0u64..3, 1u32..1500), 1..5),
            gap in 0u64..10_000_000_000,
        ) {
            let rows = [request(0, &first), request(gap, &second)];
            let read = read_back(&rows);
            for (row, read) in rows.iter().zip(&read) {
                prop_assert_eq!(row.arrival, read.arrival);
                prop_assert_eq!((row.prompt.tokens(), row.output_tokens), (read.prompt.tokens(), read.output_tokens));
            }
            let shared = |rows: &[Request]| {
                let [one, two] = [0, 1].map(|row| rows[row].prompt.to_token_ids());
                one.chunks_exact(512).zip(two.chunks_exact(512)).take_while(|(one, two)| one == two).count()
            };
            prop_assert!(shared(&read) <= shared(&rows));
            if first == second {
                prop_assert_eq!(shared(&read), shared(&rows));
            }
        }
    }
}
