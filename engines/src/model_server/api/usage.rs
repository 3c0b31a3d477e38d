//! Token counts in answers (model-server spec 1.3).

use serde::Serialize;

use super::Inner;
use super::choices::Counts;
use super::fields::StreamOptions;
use super::release::Release;

/// `usage` of an answer or an event.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Usage {
    prompt_tokens: u64,
    total_tokens: u64,
    completion_tokens: u64,
    /// The outer `None` leaves the member out, the inner one is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<Option<Details>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens_details: Option<()>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Details {
    cached_tokens: u32,
    /// Told from 0.27 on, of chats; null of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_cache_tokens: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multimodal_tokens: Option<()>,
}

/// What a stream tells of its counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// One event at the end.
    pub(super) at_end: bool,
    /// Running counts on every event.
    pub(super) running: bool,
    details: bool,
    release: Release,
}

impl Told {
    pub(super) fn new(server: &Inner, asked: Option<StreamOptions>) -> Self {
        let asked = asked.unwrap_or_default();
        let forced = server.options.force_include_usage;
        let at_end = forced || asked.include_usage;
        let running = forced || at_end && asked.continuous_usage_stats;
        Self { at_end, running, details: server.options.prompt_tokens_details, release: server.release }
    }

    /// Running counts, where they are told.
    pub(super) fn now(self, prompt: u32, completion: u32) -> Option<Usage> {
        self.running
            .then(|| Usage::of(Counts { prompt: prompt.into(), completion: completion.into(), cached: 0 }))
    }

    /// The counts of the last event, where they are told.
    pub(super) fn last(self, counts: Counts) -> Option<Usage> {
        let details = details(self.details, counts, self.release);
        self.at_end.then(|| Usage { prompt_tokens_details: details.map(Some), ..Usage::of(counts) })
    }
}

impl Usage {
    fn of(Counts { prompt, completion, .. }: Counts) -> Self {
        let total_tokens = prompt + completion;
        Self {
            prompt_tokens: prompt,
            total_tokens,
            completion_tokens: completion,
            prompt_tokens_details: None,
            completion_tokens_details: None,
        }
    }

    /// The counts of an answer that is whole; `created` are tokens added to the prefix cache, where they are told.
    pub(super) fn whole(server: &Inner, counts: Counts, created: Option<u64>) -> Self {
        let details = details(server.options.prompt_tokens_details, counts, server.release);
        let details = details.map(|details| match server.null(Release::V27..) {
            None => details,
            null => Details { created_cache_tokens: Some(created), multimodal_tokens: null, ..details },
        });
        let completion_tokens_details = server.null(Release::V32..);
        Self { prompt_tokens_details: Some(details), completion_tokens_details, ..Self::of(counts) }
    }
}

/// The counts of the prefix cache, where they are told; releases before 0.27 are silent about none.
fn details(told: bool, counts: Counts, release: Release) -> Option<Details> {
    let told = told && (counts.cached > 0 || release >= Release::V27);
    told.then_some(Details {
        cached_tokens: counts.cached,
        created_cache_tokens: None,
        multimodal_tokens: None,
    })
}
