//! What the engine's tests share: a model that counts, and an engine driven one step at a time.

use super::{BlockHash, Engine, EngineConfig, Finish, Model, NewRequest, Next, RequestId, Token};

/// Samples the output position plus 100, or EOS (2) where asked to.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// (request, position) at which EOS is sampled.
    pub(super) eos: Vec<(u64, u32)>,
}

impl Model for Counting {
    fn sample(&mut self, request: RequestId, position: u32) -> Token {
        if self.eos.contains(&(request.0, position)) { 2 } else { 100 + position }
    }

    fn hash_block(&mut self, request: RequestId, block: u32, _: Option<BlockHash>) -> BlockHash {
        BlockHash(1 << 63 | request.0 << 32 | u64::from(block))
    }
}

/// What one turn showed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// (request, tokens, computed before) of the batch scheduled.
    pub(super) rows: Vec<(u64, u32, u32)>,
    pub(super) preempted: Vec<u64>,
    /// (request, token) of the batch completed.
    pub(super) outputs: Vec<(u64, Token)>,
    pub(super) finished: Vec<(u64, Finish)>,
}

/// An engine and its model.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) engine: Engine,
    pub(super) model: Counting,
}

impl Bench {
    pub(super) fn new(config: EngineConfig) -> Self {
        Self { engine: Engine::new(config).expect("the test's options are good"), model: Counting::default() }
    }

    /// Adds a request whose prompt is the first `prompt` tokens of the text `family`.
    pub(super) fn add(&mut self, id: u64, family: u64, prompt: u32, max_tokens: u32) {
        let request = NewRequest::new(RequestId(id), prompt, max_tokens);
        self.add_request(family, NewRequest { eos: Some(2), ..request });
    }

    pub(super) fn add_request(&mut self, family: u64, request: NewRequest) {
        let full = u64::from(request.prompt_tokens / self.engine.config().block_size);
        let block_hashes = (0..full).map(|block| BlockHash(family << 32 | block)).collect();
        self.engine.add(NewRequest { block_hashes, ..request }).expect("the test's request is good");
    }

    pub(super) fn turn(&mut self) -> Seen {
        let mut seen = Seen::default();
        let turn = self.engine.turn();
        if turn.scheduled {
            let batch = self.engine.newest().expect("the turn scheduled a batch");
            seen.rows = batch.rows().iter().map(|row| (row.request.0, row.tokens, row.computed)).collect();
            seen.preempted = batch.preempted().iter().map(|id| id.0).collect();
        }
        if turn.next == Next::Complete {
            let update = self.engine.complete(&mut self.model);
            seen.outputs = update.outputs.iter().map(|output| (output.request.0, output.token)).collect();
            let finish = |output: &super::Output| Some((output.request.0, output.finish?));
            seen.finished = update.outputs.iter().filter_map(finish).collect();
        }
        seen
    }

    pub(super) fn rows(&mut self) -> Vec<(u64, u32, u32)> {
        self.turn().rows
    }

    /// The blocks of a row of the newest batch.
    pub(super) fn blocks(&self, id: u64) -> Vec<u32> {
        let batch = self.engine.newest().expect("a batch is in flight");
        let row = batch.rows().iter().find(|row| row.request.0 == id).expect("the request is in the batch");
        self.engine.new_blocks(row).to_vec()
    }
}
