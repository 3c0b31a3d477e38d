//! The KV blocks of one request: looking up its prefix, giving it slots, caching what is full, taking all back.

use super::block_pool::{BlockId, BlockPool};
use super::config::EngineConfig;
use super::events::KvEvents;
use super::request::Request;

/// Hands the blocks of the pool to requests (model-server spec 5.6).
#[derive(Debug)]
pub(super) struct KvCache {
    pool: BlockPool,
    block_size: u32,
    max_model_len: u32,
    caching: bool,
    reserve_full: bool,
    spare: u32,
    /// What happened since the last update; `None` when nobody listens.
    events: Option<KvEvents>,
    /// The blocks that the last look-up found, all watched.
    hits: Vec<BlockId>,
    /// The addition of the request that they were looked up for; 0 once they are used.
    looked_up: u64,
}

impl KvCache {
    pub(super) fn new(config: &EngineConfig) -> Self {
        let caching = config.enable_prefix_caching;
        Self {
            pool: BlockPool::new(config.num_gpu_blocks, config.profile.unhashed_blocks, caching),
            block_size: config.block_size,
            max_model_len: config.max_model_len,
            caching,
            reserve_full: config.scheduler_reserve_full_isl,
            spare: config.spare_blocks(),
            events: config.enable_kv_cache_events.then(KvEvents::default),
            hits: Vec::new(),
            looked_up: 0,
        }
    }

    pub(super) fn pool(&self) -> &BlockPool {
        &self.pool
    }

    pub(super) fn caching(&self) -> bool {
        self.caching
    }

    /// Records events from now on.
    pub(super) fn record_events(&mut self) {
        self.events.get_or_insert_default();
    }

    /// Exchanges the recorded events with an empty record.
    pub(super) fn swap_events(&mut self, record: &mut KvEvents) {
        if let Some(events) = &mut self.events {
            std::mem::swap(events, record);
        }
    }

    /// Finds the longest cached prefix of `request` that leaves at least its last token to compute.
    ///
    /// Returns its tokens; [`KvCache::admit`] uses the blocks. A request that is refused step after step is looked
    /// up again each time: as long as none of its hits is evicted, that only asks for the block behind them.
    pub(super) fn look_up(&mut self, request: &Request) -> u32 {
        if self.pool.take_lost_watched() || self.looked_up != request.serial {
            self.forget_hits();
            self.looked_up = request.serial;
        }
        if self.caching {
            let limit = (request.known - 1) / self.block_size;
            while self.hits.len() < limit as usize
                && let Some(block) = self.pool.find(request.hashes[self.hits.len()])
            {
                self.pool.watch(block, true);
                self.hits.push(block);
            }
        }
        self.hit_blocks() * self.block_size
    }

    fn forget_hits(&mut self) {
        for block in self.hits.drain(..) {
            self.pool.watch(block, false);
        }
        self.looked_up = 0;
    }

    /// Gives a waiting request the blocks that the last look-up found and those that `tokens` more need.
    ///
    /// `spares` says whether the watermark holds. Returns whether there was room; if not, nothing has changed.
    pub(super) fn admit(&mut self, request: &mut Request, tokens: u32, spares: bool) -> bool {
        let hits = self.hit_blocks();
        let allowed = self.pool.free().saturating_sub(if spares { self.spare } else { 0 });
        let computed = hits * self.block_size + tokens;
        let full = if self.reserve_full { request.known } else { computed };
        let missing = |tokens: u32| self.blocks_for(tokens).saturating_sub(hits);
        if missing(full) > allowed {
            return false;
        }
        let free_hits = self.hits.iter().filter(|&&block| self.pool.is_free(block)).count() as u32;
        if missing(full) + free_hits > allowed {
            return false;
        }
        let taken = missing(computed);
        for &block in &self.hits {
            self.pool.touch(block);
        }
        request.blocks.extend_from_slice(&self.hits);
        request.cached_blocks = hits;
        self.forget_hits();
        self.take(request, taken);
        self.store(request, computed);
        true
    }

    /// Gives a running request the blocks that `tokens` more need.
    ///
    /// Returns whether there was room; if not, nothing has changed.
    pub(super) fn grow(&mut self, request: &mut Request, tokens: u32) -> bool {
        let computed = request.computed + tokens;
        let owned = request.blocks.len() as u32;
        if computed > owned * self.block_size {
            let missing = self.blocks_for(computed).saturating_sub(owned);
            if missing > self.pool.free() {
                return false;
            }
            self.take(request, missing);
        }
        self.store(request, computed);
        true
    }

    /// Lets the blocks be found that are full of known tokens among the first `computed` ones.
    pub(super) fn store(&mut self, request: &mut Request, computed: u32) {
        let tokens = computed.min(request.known);
        if !self.caching || tokens < (request.cached_blocks + 1) * self.block_size {
            return;
        }
        let first = request.cached_blocks as usize;
        let full = (tokens / self.block_size) as usize;
        for (&block, &hash) in request.blocks[first..full].iter().zip(&request.hashes[first..full]) {
            self.pool.store(block, hash);
        }
        if let Some(events) = &mut self.events {
            events.stored(request.id, request.cached_blocks, &request.hashes[..full]);
        }
        request.cached_blocks = full as u32;
    }

    /// Takes all blocks of `request` back.
    pub(super) fn release(&mut self, request: &mut Request) {
        self.pool.release(&request.blocks);
        request.blocks.clear();
        request.cached_blocks = 0;
    }

    /// Drops all hashes if no block is in use; returns whether it did.
    pub(super) fn reset(&mut self) -> bool {
        let idle = self.pool.free() == self.pool.usable();
        if idle {
            self.pool.clear();
            if let Some(events) = &mut self.events {
                events.cleared();
            }
        }
        idle
    }

    fn take(&mut self, request: &mut Request, count: u32) {
        for _ in 0..count {
            request.blocks.push(self.pool.take(self.events.as_mut()));
        }
    }

    fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.min(self.max_model_len).div_ceil(self.block_size)
    }

    fn hit_blocks(&self) -> u32 {
        self.hits.len() as u32
    }
}

#[cfg(test)]
mod tests;
