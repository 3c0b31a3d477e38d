//! The choices of a request as they are generated: what streams send on and whole answers collect.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;

use super::Inner;
use super::error::ApiError;
use super::fields::Plan;
use super::release::Release;
use crate::engine::{FinishReason, Token};
use crate::model_server::generation::{EngineHandle, Event, Generation};
use crate::model_server::text::Text;

/// All choices of a request. Dropping it aborts those that are not at their end.
#[derive(Debug)]
pub(super) struct Choices {
    server: Arc<Inner>,
    plan: Plan,
    choices: Vec<Choice>,
    /// The choice that is asked first.
    first: usize,
    open: usize,
}

#[derive(Debug)]
struct Choice {
    generation: Option<Generation>,
    text: Text,
    prompt: Arc<[Token]>,
    cached: u32,
}

/// What a choice gained since it was asked last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Delta {
    /// Number of the choice.
    pub(super) index: u32,
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
    pub(super) end: Option<End>,
    /// Tokens of the choice so far.
    pub(super) generated: u32,
    /// Tokens of its prompt.
    pub(super) prompt_tokens: u32,
}

/// Why a choice ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum End {
    /// By its length: written as null, as the end-of-sequence token is.
    Length(()),
    Eos(()),
    StopToken(Token),
    StopString(String),
    /// By the engine, which was paused.
    Abort(()),
}

impl End {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            End::Length(()) => "length",
            End::Eos(()) | End::StopToken(_) | End::StopString(_) => "stop",
            End::Abort(()) => "abort",
        }
    }
}

/// A choice that is at its end.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
    pub(super) end: End,
}

/// Token counts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) prompt: u64,
    pub(super) completion: u64,
    pub(super) cached: u32,
}

impl Choices {
    /// Submits all choices of all prompts, those of one prompt one after the other.
    pub(super) fn start(
        server: &Arc<Inner>,
        engine: &EngineHandle,
        plan: Plan,
        prompts: &[Arc<[Token]>],
    ) -> Self {
        let mut choices = Vec::new();
        for prompt in prompts {
            for child in 0..plan.choices {
                let generate = plan.generate(prompt, child, server.options.mean_output_tokens);
                choices.push(Choice {
                    generation: Some(engine.generate(&generate)),
                    text: Text::new(plan.stops.clone()),
                    prompt: Arc::clone(prompt),
                    cached: 0,
                });
            }
        }
        let open = choices.len();
        Self { server: Arc::clone(server), plan, choices, first: 0, open }
    }

    /// Polls for the next gain of any choice; `None` when all are at their end.
    ///
    /// Choices that have something are served in turn. Several tokens that wait make one delta.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Delta, ApiError>>> {
        if self.open == 0 {
            return Poll::Ready(None);
        }
        let count = self.choices.len();
        for place in (self.first..count).chain(0..self.first) {
            let Some(generation) = &mut self.choices[place].generation else { continue };
            if let Poll::Ready(event) = generation.poll_next(cx) {
                self.first = (place + 1) % count;
                return Poll::Ready(Some(self.take(place, event)));
            }
        }
        Poll::Pending
    }

    fn take(&mut self, place: usize, event: Option<Event>) -> Result<Delta, ApiError> {
        let choice = &mut self.choices[place];
        let mut delta = Delta {
            index: u32::try_from(place).unwrap_or(u32::MAX),
            prompt_tokens: u32::try_from(choice.prompt.len()).unwrap_or(u32::MAX),
            ..Delta::default()
        };
        let mut event = event.ok_or_else(ApiError::internal)?;
        loop {
            choice.add(event, &self.server, &self.plan, &mut delta)?;
            if delta.end.is_some() {
                choice.generation = None;
                self.open -= 1;
                break;
            }
            match choice.generation.as_mut().and_then(Generation::try_next) {
                Some(next) => event = next,
                None => break,
            }
        }
        delta.text.push_str(choice.text.take(delta.end.is_some()));
        delta.generated = choice.text.tokens();
        Ok(delta)
    }

    /// Waits for all choices.
    pub(super) async fn collect(&mut self) -> Result<Vec<Whole>, ApiError> {
        let empty = || Whole { text: String::new(), tokens: Vec::new(), end: End::Length(()) };
        let mut wholes: Vec<Whole> = self.choices.iter().map(|_| empty()).collect();
        while let Some(delta) = poll_fn(|cx| self.poll_next(cx)).await {
            let Delta { index, text, tokens, end, .. } = delta?;
            let whole = &mut wholes[index as usize];
            whole.text.push_str(&text);
            whole.tokens.extend(tokens);
            if let Some(end) = end {
                whole.end = end;
            }
        }
        Ok(wholes)
    }

    /// Whether all choices are at their end.
    pub(super) fn ended(&self) -> bool {
        self.open == 0
    }

    /// The release that the server answers as.
    pub(super) fn release(&self) -> Release {
        self.server.release
    }

    /// The number of choices.
    pub(super) fn len(&self) -> usize {
        self.choices.len()
    }

    /// The prompt behind which a choice is generated.
    pub(super) fn prompt(&self, index: u32) -> &Arc<[Token]> {
        &self.choices[index as usize].prompt
    }

    /// The counts so far. Of several prompts only the last one's cached tokens are told, as vLLM does.
    pub(super) fn counts(&self) -> Counts {
        let siblings = self.plan.choices.max(1) as usize;
        Counts {
            prompt: self.choices.iter().step_by(siblings).map(|choice| choice.prompt.len() as u64).sum(),
            completion: self.choices.iter().map(|choice| u64::from(choice.text.tokens())).sum(),
            cached: self.choices.last().map_or(0, |choice| choice.cached),
        }
    }
}

impl Choice {
    fn add(&mut self, event: Event, server: &Inner, plan: &Plan, delta: &mut Delta) -> Result<(), ApiError> {
        let (token, end) = match event {
            Event::Aborted(_) => {
                delta.end = Some(End::Abort(()));
                return Ok(());
            }
            Event::Refused(error) => return Err(ApiError::raised(error.to_string())),
            Event::Token { token, cached } => {
                self.cached = cached;
                (token, None)
            }
            Event::Finished { token, finish, tokens } => {
                self.cached = tokens.cached;
                let end = match (finish.reason, finish.stop_token) {
                    (FinishReason::Length, _) => End::Length(()),
                    (FinishReason::Stop, None) => End::Eos(()),
                    (FinishReason::Stop, Some(token)) => End::StopToken(token),
                };
                (token, Some(end))
            }
        };
        delta.tokens.push(token);
        delta.end = end;
        let hidden = matches!(delta.end, Some(End::Eos(()) | End::StopToken(_))) && !plan.stops.include;
        if hidden {
            self.text.skip();
        } else if let Some(place) = self.text.push(&server.tokenizer, token) {
            delta.end = Some(End::StopString(plan.stops.strings[place].clone()));
            if let Some(generation) = self.generation.take() {
                generation.stop();
            }
        }
        Ok(())
    }
}
