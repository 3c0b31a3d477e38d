use super::*;
use crate::config::schema::Behavior;
use crate::prefix::block_index::{BlockIndex, Limits};
use crate::prefix::block_keys::BlockHasher;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A batch of one vLLM store; `hash`, `tokens` and `rest` are the bytes in their places.
fn store(hash: &str, tokens: &str, rest: &str) -> Vec<u8> {
    hex(&format!("93 cb41d26580b4800000 91 95 ab426c6f636b53746f726564 91 {hash} c0 {tokens} 04 {rest}"))
}

fn stored(payload: &[u8]) -> Result<Stored, DecodeError> {
    match decode(EngineType::Vllm, payload)?.events.remove(0) {
        KvEvent::Stored(stored) => Ok(stored),
        other => panic!("{other:?}"),
    }
}

const HASH: &str = "cf9ddb2db69f3f452c";
const TOKENS: &str = "9401020304";

#[test]
fn verified_payloads() {
    let plain = stored(&store(HASH, TOKENS, "c0")).unwrap();
    assert_eq!((plain.hashes, plain.tokens), (vec![11_374_735_546_233_341_228], vec![1, 2, 3, 4]));
    assert_eq!((plain.block_size, plain.parent), (4, 0));
    for (hash, want) in [
        ("d3ffffffffffffffff", Some(u64::MAX)),
        (
            "c420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            Some(1_736_447_835_066_146_335),
        ),
        ("c403010203", Some(66_051)),
        ("64", None),
        ("ce00010000", None),
        ("a3616263", None),
        ("c400", None),
    ] {
        assert_eq!(stored(&store(hash, TOKENS, "c0")).ok().map(|s| s.hashes[0]), want, "{hash}");
    }
    let tokens = |tokens| stored(&store(HASH, tokens, "c0")).map(|s| s.tokens);
    assert_eq!(tokens("94 cd0100 ce00010000 cc80 7f"), Ok(vec![256, 65_536, 128, 127]));
    assert_eq!(tokens("90"), Ok(vec![]));
    assert!(tokens("c0").is_err());
    assert_eq!(tokens("92 fd cf0000000100000000"), Ok(vec![4_294_967_293, 0]));
}

#[test]
fn what_is_claimed_and_not_there_takes_no_memory() {
    for payload in
        ["93 c0 dd ffffffff", "dd ffffffff", "df ffffffff", "c6 ffffffff", "93 c0 91 95 dd 7fffffff"]
    {
        assert!(decode(EngineType::Vllm, &hex(payload)).is_err(), "{payload}");
    }
    // Deep nesting is walked, not climbed into.
    let mut deep = hex("93 c0 91");
    deep.extend(std::iter::repeat_n(0x91, 1_000_000));
    assert!(decode(EngineType::Vllm, &deep).is_err());
}

proptest::proptest! {
    #[test]
    fn no_input_makes_a_decoder_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let prefix = store(HASH, TOKENS, "c0");
        for engine in [EngineType::Vllm, EngineType::Sglang] {
            let _ = decode(engine, &bytes);
            let at = bytes.len() % prefix.len();
            let _ = decode(engine, &[&prefix[..at], &bytes].concat());
        }
    }
}

#[test]
fn topics() {
    assert_eq!(split_topic("kv@10.0.0.1:8000@org/base"), ("10.0.0.1:8000", "org/base"));
    for odd in ["kv@pod", "kv@pod@m@2", "plain"] {
        assert_eq!(split_topic(odd), (odd, ""));
    }
}

/// Applies events of one pod, and returns how many blocks it holds then.
fn blocks_after(compat: Behavior, events: Vec<KvEvent>) -> (usize, Applied, Option<MissingKind>) {
    let mut index = BlockIndex::new(Limits::default());
    let mut applier = KvEventApplier::new(BlockHasher::new(4, ""), compat);
    let batch = KvBatch { timestamp: 0.0, events };
    let applied = applier.apply(&mut index, "10.0.0.1:8000", "kv@pod@m", &batch);
    (index.len(), applied, applier.take_missing_kind())
}

fn four_tokens(group: Option<i64>) -> KvEvent {
    KvEvent::Stored(Stored {
        hashes: vec![7],
        tokens: vec![1, 2, 3, 4],
        block_size: 4,
        group,
        ..Stored::default()
    })
}

#[test]
fn a_group_without_a_kind_is_skipped_unless_the_configuration_says_otherwise() {
    let (blocks, applied, warning) =
        blocks_after(Behavior::Parity, vec![four_tokens(Some(0)), four_tokens(Some(0))]);
    let skipped = applied.stores_skipped.into_iter().collect::<Vec<_>>();
    assert_eq!(skipped, [(("unknown".to_owned(), "unsupported_cache_kind"), 2)]);
    assert_eq!((blocks, warning), (0, Some(MissingKind)));
    let (blocks, applied, warning) = blocks_after(Behavior::Fixed, vec![four_tokens(Some(0))]);
    assert_eq!((blocks, applied.stored, warning), (1, 1, None));
    let removed = KvEvent::Removed(Removed { hashes: vec![7], group: Some(0), ..Removed::default() });
    assert_eq!(blocks_after(Behavior::Fixed, vec![four_tokens(Some(0)), removed]).0, 0);
}

#[test]
fn blocks_behind_an_unknown_parent_are_dropped_and_counted() {
    let orphan = KvEvent::Stored(Stored {
        parent: 99,
        ..match four_tokens(None) {
            KvEvent::Stored(stored) => stored,
            _ => unreachable!(),
        }
    });
    let (blocks, applied, _) = blocks_after(Behavior::Parity, vec![orphan]);
    assert_eq!(
        (blocks, applied.stores_dropped.into_iter().collect::<Vec<_>>()),
        (0, vec![("unknown_parent", 1)])
    );
}

#[test]
fn a_block_stored_twice_is_removed_by_the_second_removal() {
    let removed = || KvEvent::Removed(Removed { hashes: vec![7], ..Removed::default() });
    let stores = || vec![four_tokens(None), four_tokens(None)];
    let (blocks, applied, _) = blocks_after(Behavior::Parity, [stores(), vec![removed()]].concat());
    assert_eq!((blocks, applied.removed_suppressed, applied.removed_forwarded), (1, 1, 0));
    assert_eq!(blocks_after(Behavior::Parity, [stores(), vec![removed(), removed()]].concat()).0, 0);
    assert_eq!(blocks_after(Behavior::Parity, [stores(), vec![KvEvent::Cleared]].concat()).0, 0);
}
