use std::rc::Rc;
use std::time::Duration;

use executor::Instant;

use super::context::{Context, Sent};
use super::{Core, PredictedLatencyProducer};
use crate::candidates::Candidates;
use crate::endpoint::EndpointMetadata;
use crate::error::PluginError;
use crate::latency_predictor::{PredictionRow, TrainingEntry};
use crate::request::InferenceRequest;
use crate::request_control::{PreRequest, ResponseBodyProcessor, ResponseHeaderProcessor, ResponseRecord};
use crate::scheduling::SchedulingResult;

impl PreRequest for PredictedLatencyProducer {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _candidates: &Candidates,
    ) -> Result<(), PluginError> {
        let id = request.request_id.as_str();
        let Some(target) = result.primary_targets().first().filter(|_| !id.is_empty()) else { return Ok(()) };
        let now = self.rt.now();
        let core = &mut *self.core.borrow_mut();
        core.expire(now);
        let Core { contexts, running } = core;
        let context = contexts.get(id, now);
        let objective = context.as_ref().map(|context| (id, context.borrow().tpot_slo));
        running.insert(&target.endpoint.metadata.id, objective);
        if let Some(context) = context {
            let prefill = Some("prefill").filter(|name| **name != *result.primary);
            let prefill = prefill.and_then(|name| result.profile_targets(name).first());
            context.borrow_mut().sent = Some(Sent {
                target: Rc::clone(&target.endpoint),
                prefill: prefill.map(|target| Rc::clone(&target.endpoint)),
                at: now,
            });
        }
        Ok(())
    }
}

impl ResponseHeaderProcessor for PredictedLatencyProducer {
    /// Keeps the request in mind.
    fn response_header(
        &self,
        request: Option<&InferenceRequest>,
        _response: &mut ResponseRecord,
        _target: Option<&Rc<EndpointMetadata>>,
    ) {
        if let Some(request) = request {
            let now = self.rt.now();
            let core = &mut *self.core.borrow_mut();
            core.expire(now);
            core.contexts.get(&request.request_id, now);
        }
    }
}

impl ResponseBodyProcessor for PredictedLatencyProducer {
    fn response_body(
        &self,
        request: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        target: Option<&Rc<EndpointMetadata>>,
    ) {
        let (Some(request), Some(_)) = (request, target) else { return };
        let id = request.request_id.as_str();
        let now = self.rt.now();
        let core = &mut *self.core.borrow_mut();
        core.expire(now);
        let Core { contexts, running } = core;
        let Some(context) = contexts.get(id, now) else { return };
        let context = &mut *context.borrow_mut();
        let end = response.end_of_stream;
        if context.ttft_ms > 0.0 {
            context.generated += 1;
        } else if self.parameters.streaming_mode && !end {
            self.first_token(context, &request.target_model, now);
        }
        if end {
            if !self.parameters.streaming_mode {
                self.first_token(context, &request.target_model, now);
            }
            self.last_token(context, &request.target_model, now);
            if let Some(sent) = &context.sent {
                running.remove(&sent.target.metadata.id, id);
            }
            contexts.remove(id);
        }
    }
}

impl PredictedLatencyProducer {
    /// Learns how long the first token took. One that took less than a millisecond leaves the next chunk as the first.
    fn first_token(&self, context: &mut Context, model: &str, now: Instant) {
        let Some(sent) = &context.sent else { return };
        let first = Rc::clone(sent.first());
        context.ttft_ms = whole_milliseconds(now - sent.at);
        context.generated = 1;
        let entry = TrainingEntry::new(self.row(context, &first), self.rt.wall());
        self.predictor.learn(TrainingEntry { actual_ttft_ms: context.ttft_ms, ..entry });
        let predicted = context.seen(&first).prediction.ttft_ms;
        self.metrics.measured("ttft", model, context.ttft_ms, predicted, context.ttft_slo);
    }

    /// Learns how long the tokens behind the first took on average; a chunk counts as a token.
    fn last_token(&self, context: &Context, model: &str, now: Instant) {
        let Some(sent) = &context.sent else { return };
        if context.ttft_ms <= 0.0 || context.generated <= 1 {
            return;
        }
        let rest = whole_milliseconds(now - sent.at) - context.ttft_ms;
        let average = rest / (context.generated - 1) as f64;
        if average <= 0.0 {
            return;
        }
        let row = PredictionRow { prefix_cache_score: 0.0, ..self.row(context, &sent.target) };
        let entry = TrainingEntry::new(row, self.rt.wall());
        self.predictor.learn(TrainingEntry { actual_tpot_ms: average, ..entry });
        let predicted = context.seen(&sent.target).prediction.tpot_ms;
        self.metrics.measured("tpot", model, average, predicted, context.tpot_slo);
    }
}

fn whole_milliseconds(duration: Duration) -> f64 {
    duration.as_millis() as f64
}
