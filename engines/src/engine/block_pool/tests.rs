use proptest::prelude::*;

use super::*;

fn pool(count: u32) -> BlockPool {
    BlockPool::new(count, UnhashedBlocks::Tail, true)
}

fn free(pool: &BlockPool) -> Vec<BlockId> {
    pool.free_queue().collect()
}

fn take(pool: &mut BlockPool, count: usize) -> Vec<BlockId> {
    (0..count).map(|_| pool.take(None)).collect()
}

#[test]
fn the_null_block_is_never_handed_out() {
    let mut pool = pool(4);
    assert_eq!((pool.usable(), pool.free()), (3, 3));
    assert_eq!(take(&mut pool, 3), [1, 2, 3]);
    assert_eq!((pool.free(), free(&pool)), (0, vec![]));
}

#[test]
fn release_puts_the_deepest_block_first() {
    let mut pool = pool(7);
    let (first, second) = (take(&mut pool, 3), take(&mut pool, 2));
    pool.release(&first);
    pool.release(&second);
    assert_eq!(free(&pool), [6, 3, 2, 1, 5, 4]);
}

#[test]
fn since_0_25_unhashed_blocks_are_reused_before_all_others() {
    let mut pool = BlockPool::new(7, UnhashedBlocks::Head, true);
    let blocks = take(&mut pool, 4);
    pool.store(blocks[0], BlockHash(10));
    pool.store(blocks[1], BlockHash(11));
    pool.release(&blocks);
    assert_eq!(free(&pool), [4, 3, 5, 6, 2, 1]);
    for (caching, order) in [(true, [2, 1, 3]), (false, [3, 2, 1])] {
        let mut pool = BlockPool::new(4, UnhashedBlocks::HeadWithCaching, caching);
        let blocks = take(&mut pool, 2);
        pool.release(&blocks);
        assert_eq!(free(&pool), order, "caching {caching}");
    }
}

#[test]
fn taking_a_cached_block_removes_its_hash_and_says_so() {
    let mut pool = pool(2);
    let block = pool.take(None);
    pool.store(block, BlockHash(7));
    pool.release(&[block]);
    assert_eq!(pool.find(BlockHash(7)), Some(block));
    let mut events = KvEvents::default();
    pool.take(Some(&mut events));
    assert_eq!(pool.find(BlockHash(7)), None);
    assert_eq!(events.iter().collect::<Vec<_>>(), [super::super::KvEvent::Removed { hash: BlockHash(7) }]);
}

#[test]
fn a_look_up_takes_the_copy_stored_first() {
    let mut pool = pool(4);
    let blocks = take(&mut pool, 3);
    for &block in &blocks {
        pool.store(block, BlockHash(7));
    }
    assert_eq!(pool.find(BlockHash(7)), Some(1));
    // A freed and touched copy keeps its place; one that is reused loses it.
    pool.release(&[1]);
    pool.touch(1);
    assert_eq!(pool.find(BlockHash(7)), Some(1));
    pool.release(&[1]);
    assert_eq!(pool.take(None), 1);
    assert_eq!(pool.find(BlockHash(7)), Some(2));
}

#[derive(Clone, Debug)]
enum Op {
    Take(usize),
    Release(usize),
    Touch(u64),
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (1usize..5).prop_map(Op::Take),
        3 => any::<usize>().prop_map(Op::Release),
        3 => (0u64..6).prop_map(Op::Touch),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(op, 0..120)
}

/// The rules of the specification on plain lists.
struct Plain {
    free: Vec<BlockId>,
    references: Vec<u32>,
    /// (hash, block) in the order of storing.
    stored: Vec<(u64, BlockId)>,
}

impl Plain {
    fn take(&mut self) -> BlockId {
        let block = self.free.remove(0);
        self.references[block as usize] = 1;
        self.stored.retain(|&(_, stored)| stored != block);
        block
    }

    fn release(&mut self, blocks: &[BlockId], unhashed_first: bool) {
        let mut front = 0;
        for &block in blocks.iter().rev() {
            self.references[block as usize] -= 1;
            if self.references[block as usize] == 0 {
                if unhashed_first && !self.stored.iter().any(|&(_, stored)| stored == block) {
                    self.free.insert(front, block);
                    front += 1;
                } else {
                    self.free.push(block);
                }
            }
        }
    }

    fn find(&self, hash: u64) -> Option<BlockId> {
        self.stored.iter().find(|&&(stored, _)| stored == hash).map(|&(_, block)| block)
    }
}

proptest! {
    #[test]
    fn agrees_with_plain_lists(ops in ops(), unhashed_first in any::<bool>()) {
        let unhashed = if unhashed_first { UnhashedBlocks::Head } else { UnhashedBlocks::Tail };
        let mut pool = BlockPool::new(12, unhashed, true);
        let mut plain = Plain { free: (1..12).collect(), references: vec![0; 12], stored: Vec::new() };
        let mut held: Vec<Vec<BlockId>> = Vec::new();
        for op in ops {
            match op {
                Op::Take(count) if count <= plain.free.len() => {
                    let blocks = take(&mut pool, count);
                    prop_assert_eq!(&blocks, &(0..count).map(|_| plain.take()).collect::<Vec<_>>());
                    // All but the last get a hash, a few hashes many times.
                    for &block in &blocks[1..] {
                        pool.store(block, BlockHash(u64::from(block % 6)));
                        plain.stored.push((u64::from(block % 6), block));
                    }
                    held.push(blocks);
                }
                Op::Release(which) if !held.is_empty() => {
                    let blocks = held.swap_remove(which % held.len());
                    pool.release(&blocks);
                    plain.release(&blocks, unhashed_first);
                }
                Op::Touch(hash) => {
                    prop_assert_eq!(pool.find(BlockHash(hash)), plain.find(hash));
                    if let Some(block) = plain.find(hash) {
                        pool.touch(block);
                        plain.references[block as usize] += 1;
                        plain.free.retain(|&free| free != block);
                        held.push(vec![block]);
                    }
                }
                Op::Clear => {
                    pool.clear();
                    plain.stored.clear();
                }
                _ => {}
            }
            prop_assert_eq!(free(&pool), plain.free.clone());
            prop_assert_eq!(pool.free() as usize, plain.free.len());
            for hash in 0..6 {
                prop_assert_eq!(pool.find(BlockHash(hash)), plain.find(hash));
            }
        }
    }
}
