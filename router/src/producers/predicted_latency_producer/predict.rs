use std::cell::RefCell;
use std::rc::Rc;

use super::context::{Context, InFlight, Seen};
use super::{Core, PredictedLatencyProducer};
use crate::attributes::{
    EncoderCacheMatchInfo, EncoderItem, InFlightLoad, LatencyPredictionInfo, PrefixCacheMatchInfo,
};
use crate::candidates::Candidates;
use crate::director::headers::{SLO_TPOT_MS, SLO_TTFT_MS};
use crate::endpoint::Endpoint;
use crate::latency_predictor::{Prediction, PredictionRow};
use crate::request::{InferenceRequest, TokenizedPrompt};
use crate::request_control::{DataProducer, Produced, go_float};

impl DataProducer for PredictedLatencyProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        let context = self.context(request);
        self.see(&mut context.borrow_mut(), candidates);
        if !self.parameters.predict_in_produce {
            self.publish(request, context);
            return Produced::Ready(Ok(()));
        }
        let rows = self.rows(&context.borrow(), candidates);
        let asked = self.rt.now();
        let prediction = self.predictor.predict(rows);
        // Where the deadline passes, the future is dropped and the context is not published.
        Produced::Pending(Box::pin(async move {
            match prediction.await {
                Ok(predictions) if predictions.len() >= candidates.len() => {
                    self.metrics.predicted_in(&request.target_model, self.rt.now() - asked);
                    self.judge(&mut context.borrow_mut(), candidates, &predictions);
                }
                Ok(predictions) => {
                    let (found, asked) = (predictions.len(), candidates.len());
                    tracing::debug!(found, asked, "the latency predictor answers for fewer endpoints");
                }
                // Producers behind this one run all the same.
                Err(error) => tracing::debug!(%error, "no latency prediction"),
            }
            self.publish(request, context);
            Ok(())
        }))
    }
}

impl PredictedLatencyProducer {
    /// Returns the request's context: that of its id, where there is one, with the objectives of this request.
    fn context(&self, request: &InferenceRequest) -> Rc<RefCell<Context>> {
        let now = self.rt.now();
        let core = &mut *self.core.borrow_mut();
        core.expire(now);
        let context = core.contexts.get(&request.request_id, now).unwrap_or_else(|| {
            let input_tokens = request.tokenized_prompt().map_or(0, TokenizedPrompt::token_count) as i64;
            Rc::new(RefCell::new(Context { input_tokens, ..Context::default() }))
        });
        let slo =
            |names: &[&str]| request.headers.first_present(names).and_then(go_float::parse).unwrap_or(0.0);
        let mut own = context.borrow_mut();
        (own.ttft_slo, own.tpot_slo) = (slo(&SLO_TTFT_MS), slo(&SLO_TPOT_MS));
        drop(own);
        context
    }

    /// Notes what is known of each candidate.
    fn see(&self, context: &mut Context, candidates: &Candidates) {
        let prefixes = candidates.read::<PrefixCacheMatchInfo>(&self.prefix_key);
        let loads = candidates.read::<InFlightLoad>(&self.load_key);
        let encoders = candidates.read::<EncoderCacheMatchInfo>(&self.encoder_key);
        // The items are the request's: whoever knows them knows them for all.
        let encoder =
            |candidate| encoders.get(candidate).filter(|_| self.parameters.use_encoder_cache_features);
        let input = candidates.all().filter_map(encoder).map(|found| size(&found.request_items)).max();
        let input = input.unwrap_or(0);
        for candidate in candidates.all() {
            let endpoint = candidates.endpoint(candidate);
            let id = &endpoint.metadata.id;
            let matched = encoder(candidate).map_or(0, |found| size(&found.matched_items));
            let seen = context.by_name.entry(id.name.clone()).or_default();
            *seen = Seen {
                prefix_score: prefixes.get(candidate).map_or(0.0, prefix_score),
                encoder: (input, matched.min(input)),
                prediction: Prediction::default(),
            };
            let running = InFlight { tokens: 0, requests: endpoint.metrics.running_requests_size };
            let load = loads.get(candidate);
            let load = load.map(|load| InFlight { tokens: load.tokens.get(), requests: load.requests.get() });
            context.in_flight.insert(id.clone(), load.unwrap_or(running));
        }
    }

    fn rows(&self, context: &Context, candidates: &Candidates) -> Vec<PredictionRow> {
        let row = |endpoint: &Rc<Endpoint>| PredictionRow {
            num_tokens_generated: 1,
            ..self.row(context, endpoint)
        };
        candidates.endpoints().iter().map(row).collect()
    }

    /// Describes an endpoint as the predictor wants it.
    pub(super) fn row(&self, context: &Context, endpoint: &Endpoint) -> PredictionRow {
        let (seen, load) = (context.seen(endpoint), context.load(endpoint));
        PredictionRow {
            kv_cache_percentage: endpoint.metrics.kv_cache_usage_percent,
            input_token_length: context.input_tokens,
            num_request_waiting: endpoint.metrics.waiting_queue_size,
            num_request_running: load.requests,
            num_tokens_generated: 0,
            prefix_cache_score: seen.prefix_score,
            encoder_input_size: seen.encoder.0,
            encoder_matched_size: seen.encoder.1,
            pod_type: self.role(&endpoint.metadata).to_owned(),
            prefill_tokens_in_flight: load.tokens,
            decode_tokens_in_flight: 0,
        }
    }

    /// Holds the predictions against the request's objectives.
    fn judge(&self, context: &mut Context, candidates: &mut Candidates, predictions: &[Prediction]) {
        let core = self.core.borrow();
        let column = candidates.endpoints().iter().zip(predictions).map(|(endpoint, prediction)| {
            let Prediction { ttft_ms: ttft, tpot_ms: tpot } = *prediction;
            if let Some(seen) = context.by_name.get_mut(&endpoint.metadata.id.name) {
                seen.prediction = *prediction;
            }
            let (running, least) = core.running.of(&endpoint.metadata.id);
            let budget = self.tpot_budget(context.tpot_slo, endpoint, least);
            Some(LatencyPredictionInfo {
                ttft_valid: ttft < context.ttft_slo,
                tpot_valid: budget.is_none_or(|budget| tpot < budget),
                ttft_headroom: context.ttft_slo - ttft,
                tpot_headroom: budget.map_or(0.0, |budget| budget - tpot),
                ttft,
                tpot,
                dispatched_request_count: running as i64,
            })
        });
        let column = column.collect();
        candidates.put(self.key.clone(), column);
    }

    /// Returns the time an output token may take on an endpoint: less where a request that runs there is promised
    /// less; `None` where it does not count.
    fn tpot_budget(&self, slo: f64, endpoint: &Endpoint, least: f64) -> Option<f64> {
        if !self.parameters.streaming_mode || self.role(&endpoint.metadata) == "prefill" {
            return None;
        }
        let factor = self.parameters.slo_buffer_factor;
        let own = slo * factor;
        Some(if least > 0.0 { own.min(least * factor) } else { own })
    }

    fn publish(&self, request: &InferenceRequest, context: Rc<RefCell<Context>>) {
        if !request.request_id.is_empty() {
            let Core { contexts, .. } = &mut *self.core.borrow_mut();
            contexts.set(&request.request_id, context, self.rt.now());
        }
    }
}

/// Returns the share of a prompt that an endpoint holds; infinite where it holds some of nothing.
fn prefix_score(found: &PrefixCacheMatchInfo) -> f64 {
    match (found.match_blocks, found.total_blocks) {
        (0, 0) => 0.0,
        (found, total) => found as f64 / total as f64,
    }
}

fn size(items: &[EncoderItem]) -> i64 {
    items.iter().map(|item| item.size).sum()
}
