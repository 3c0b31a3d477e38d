use super::*;

fn gpu(pod: &str) -> PodEntry {
    PodEntry::new(pod, "gpu")
}

fn holders(index: &BlockIndex, block: BlockKey) -> Vec<PodEntry> {
    let found = index.content().find(|(key, _)| *key == block);
    found.map_or(Vec::new(), |(_, entries)| entries.into_iter().cloned().collect())
}

#[test]
fn engine_keys_and_blocks_are_joined_in_proportion() {
    type Row<'a> = (&'a [u64], &'a [u64], &'a [(u64, &'a [u64])]);
    let rows: [Row<'_>; 4] = [
        (&[100, 200], &[1000, 2000], &[(100, &[1000]), (200, &[2000])]),
        (&[10, 11], &[9000], &[(10, &[9000]), (11, &[9000])]),
        (&[500], &[5000, 5001, 5002], &[(500, &[5000, 5001, 5002])]),
        (&[7, 7], &[1, 2], &[(7, &[1, 2])]),
    ];
    for (engine_keys, blocks, want) in rows {
        let mut index = BlockIndex::new(Limits::default());
        index.add(engine_keys, blocks, &[gpu("p")]).unwrap();
        let got: Vec<(u64, Vec<u64>)> = index.engine_keys().collect();
        assert_eq!(got.iter().map(|(key, blocks)| (*key, blocks.as_slice())).collect::<Vec<_>>(), want);
    }
}

#[test]
fn evicting_an_engine_key_clears_all_its_blocks() {
    let mut index = BlockIndex::new(Limits::default());
    index.add(&[500], &[1, 2, 3, 4], &[gpu("p")]).unwrap();
    assert_eq!(index.block_of(500), Ok(4));
    index.evict_engine_key(500, &[gpu("p")]).unwrap();
    assert!(index.is_empty());
    assert_eq!(index.block_of(500), Err(IndexError::EngineKeyNotFound(500)));
}

#[test]
fn a_mapping_stays_while_any_holder_does() {
    let cpu = PodEntry::new("p", "cpu");
    let mut index = BlockIndex::new(Limits::default());
    index.add(&[5], &[1], &[gpu("p")]).unwrap();
    index.add(&[], &[1], std::slice::from_ref(&cpu)).unwrap();
    index.evict_engine_key(5, &[gpu("p")]).unwrap();
    assert_eq!((holders(&index, 1), index.block_of(5)), (vec![cpu.clone()], Ok(1)));
    index.evict_engine_key(5, &[cpu]).unwrap();
    assert!(index.is_empty() && index.block_of(5).is_err());
}

#[test]
fn all_fields_of_an_entry_count() {
    let group = |group| PodEntry { group: Some(group), ..gpu("p") };
    let entries = [gpu("p"), group(0), group(1), PodEntry::speculative("p"), PodEntry::new("p", "")];
    let mut index = BlockIndex::new(Limits::default());
    index.add(&[], &[1], &entries).unwrap();
    assert_eq!(holders(&index, 1), entries);
    index.evict_block(1, &[group(0)]).unwrap();
    assert_eq!(holders(&index, 1).len(), 4);
    index.clear("p");
    assert!(index.is_empty());
}

#[test]
fn the_holder_added_longest_ago_makes_room() {
    let mut index = BlockIndex::new(Limits { holders: 2, ..Limits::default() });
    for pod in ["a", "b", "a", "c"] {
        index.add(&[], &[1], &[gpu(pod)]).unwrap();
    }
    assert_eq!(holders(&index, 1), [gpu("a"), gpu("c")]);
}

#[test]
fn the_block_used_longest_ago_makes_room() {
    let mut index = BlockIndex::new(Limits { keys: 2, ..Limits::default() });
    index.add(&[11, 12], &[1, 2], &[gpu("a")]).unwrap();
    index.visit(&[1], |_, _| ());
    index.add(&[13], &[3], &[gpu("a")]).unwrap();
    assert_eq!(index.content().map(|(block, _)| block).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(index.engine_keys().map(|(key, _)| key).collect::<Vec<_>>(), [12, 13]);
}

#[test]
fn only_the_last_removal_counts() {
    let mut index = BlockIndex::new(Limits::default());
    for key in [1, 1, 2] {
        index.reference(key, &gpu("a"));
    }
    index.reference(1, &gpu("b"));
    let removed: Vec<bool> = [1, 2, 3, 1].iter().map(|key| index.unreference(*key, &gpu("a"))).collect();
    assert_eq!(removed, [false, true, true, true]);
    index.reference(2, &gpu("a"));
    index.forget_references("a");
    assert!(index.unreference(2, &gpu("a")));
    assert!(index.unreference(1, &gpu("b")));
    assert_eq!(index.engine_keys().count(), 0);
}

#[test]
fn memory_keeps_to_its_bound() {
    let bytes = 1 << 20;
    let mut index = BlockIndex::new(Limits { bytes, ..Limits::default() });
    for round in 0..1000u64 {
        let keys: Vec<u64> = (round * 100 + 1..=round * 100 + 100).collect();
        index.add(&keys, &keys, &[gpu("a")]).unwrap();
        for key in &keys {
            index.reference(*key, &gpu("a"));
            index.reference(*key | 1 << 40, &gpu("a"));
        }
        index.add(&[], &keys[..1], &[gpu("b")]).unwrap();
        assert!(index.bytes() <= bytes + 64 * 1024, "{} bytes", index.bytes());
    }
    assert!(index.len() > 1000);
}

#[test]
fn what_a_block_takes() {
    let mut index = BlockIndex::new(Limits { holders: 64, ..Limits::default() });
    let keys: Vec<u64> = (1..=100_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut before = index.bytes();
    for (pod, most) in (0..8).map(|pod| (format!("10.0.0.{pod}:8000"), if pod == 0 { 64 } else { 96 })) {
        index.add(&keys, &keys, &[gpu(&pod)]).unwrap();
        for key in &keys {
            index.reference(*key, &gpu(&pod));
        }
        let bytes = index.bytes();
        assert!((bytes - before) / keys.len() <= most, "{} bytes for {pod}", (bytes - before) / keys.len());
        before = bytes;
    }
    for pod in 0..8 {
        index.clear(&format!("10.0.0.{pod}:8000"));
        index.forget_references(&format!("10.0.0.{pod}:8000"));
    }
    for key in keys {
        index.evict_engine_key(key, &[gpu("10.0.0.0:8000")]).unwrap();
    }
    assert!(index.bytes() < 200_000, "{} bytes left", index.bytes());
}
