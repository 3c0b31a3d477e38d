/// What the latency models need to know about the sequences of one step.
///
/// Sums only: a batch is built in one pass, changed by one sequence in constant time, and moved on by a
/// decode step in constant time. All sums are integers, so the order of building does not show in a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepBatch {
    /// Sequences that compute prompt tokens.
    pub(super) prefills: u64,
    /// Prompt tokens computed.
    pub(super) prefill_tokens: u64,
    /// Tokens that the prefilling sequences had computed before.
    pub(super) prefill_context: u64,
    /// Twice the sum over prefills of new tokens times the mean context each of them attends to.
    pub(super) prefill_attention: u64,
    /// Twice the sum over prefills of `new * (prompt + new / 2)`.
    pub(super) prefill_prompt_attention: u64,
    /// Sequences that decode one token.
    pub(in crate::engine) decodes: u64,
    /// Tokens that the decoding sequences had computed before.
    pub(super) decode_context: u64,
}

impl StepBatch {
    /// Adds a sequence that computes `new` tokens of its prompt of `prompt` tokens, of which `context` are
    /// computed or cached already.
    pub fn add_prefill(&mut self, context: u32, new: u32, prompt: u32) {
        let (context, new, prompt) = (u64::from(context), u64::from(new), u64::from(prompt));
        self.prefills += 1;
        self.prefill_tokens += new;
        self.prefill_context += context;
        self.prefill_attention += new * (2 * context + new.saturating_sub(1));
        self.prefill_prompt_attention += new * (2 * prompt + new);
    }

    /// Adds a sequence that decodes one token behind `context` computed ones.
    pub fn add_decode(&mut self, context: u32) {
        self.decodes += 1;
        self.decode_context += u64::from(context);
    }

    /// Moves on by one step in which no sequence joins, leaves or prefills: each context grows by one token.
    pub fn advance_decodes(&mut self) {
        self.decode_context += self.decodes;
    }

    /// Returns whether no sequence is in the batch.
    pub fn is_empty(&self) -> bool {
        self.prefills == 0 && self.decodes == 0
    }

    /// Returns the tokens that the step computes.
    pub fn tokens(&self) -> u64 {
        self.prefill_tokens + self.decodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advancing_equals_building_anew() {
        let batch = |contexts: &[u32]| {
            let mut batch = StepBatch::default();
            contexts.iter().for_each(|context| batch.add_decode(*context));
            batch
        };
        let mut advanced = batch(&[10, 20, 30]);
        advanced.advance_decodes();
        assert_eq!(advanced, batch(&[11, 21, 31]));
    }

    #[test]
    fn a_prefill_attends_to_its_context_and_half_of_its_own_tokens() {
        let mut batch = StepBatch::default();
        batch.add_prefill(2048, 2048, 4096);
        assert_eq!(batch.prefill_attention, 2 * 2048 * 2048 + 2048 * 2047);
        assert_eq!(batch.tokens(), 2048);
        let mut one = StepBatch::default();
        one.add_prefill(7, 1, 8);
        assert_eq!(one.prefill_attention, 2 * 7);
    }
}
