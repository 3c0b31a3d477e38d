//! `/metrics`: the published values as Prometheus text, in vLLM's order (model-server spec 2.3).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use executor::http::Body;
use http::{Response, StatusCode};
use router::data_layer::engine_gauges::{CacheConfig, EngineGauges};

use super::{Inner, reply};
use crate::model_server::histogram::Histogram;
use crate::model_server::published::{Histograms, Published};

/// Answers with the text; the page itself and the application mounted under it name different versions.
pub(super) fn text(server: &Inner, page: bool) -> Response<Body> {
    let content_type = match page {
        true => "text/plain; version=1.0.0; charset=utf-8",
        false => "text/plain; version=0.0.4; charset=utf-8",
    };
    let published: Vec<Published> =
        server.engines.iter().map(|engine| engine.published().lock().clone()).collect();
    let created = server.started.unix_nanos() as f64 / 1e9;
    reply::with(StatusCode::OK, content_type, write(&published, server.model(), created))
}

/// Answers with the gauges of rank 0, which are all that a router reads of the text.
pub(super) fn gauges(server: &Inner) -> Response<Body> {
    let published = server.engines[0].published().lock();
    let gauges = EngineGauges {
        model_name: Arc::clone(&server.model_name),
        engine: 0,
        waiting: published.waiting(),
        running: published.gauges.running as u64,
        kv_cache_usage: published.gauges.usage,
        cache_config: CacheConfig {
            block_size: published.block_size,
            num_gpu_blocks: u64::from(published.num_gpu_blocks),
        },
        lora: None,
    };
    drop(published);
    let mut response = Response::new(Body::Empty);
    response.extensions_mut().insert(gauges);
    response
}

/// A value of one engine.
type Value = fn(&Published) -> f64;

/// Values of one engine that differ in a label.
type Labelled = &'static [(&'static str, Value)];

/// The families of one kind of type, in order.
enum Family {
    Gauge(&'static str, Value, &'static str),
    GaugeBy(&'static str, &'static str, Labelled, &'static str),
    Counter(&'static str, Value, &'static str),
    CounterBy(&'static str, &'static str, Labelled, &'static str),
    Histogram(&'static str, fn(&Histograms) -> &Histogram, &'static str),
}

use Family::{Counter, CounterBy, Gauge, GaugeBy, Histogram as Distribution};

const NONE: Value = |_| 0.0;

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    Counter("estimated_flops_per_gpu", NONE, "Floating point operations, estimated."),
    Counter("estimated_read_bytes_per_gpu", NONE, "Bytes read from the GPU's memory, estimated."),
    Counter("estimated_write_bytes_per_gpu", NONE, "Bytes written to the GPU's memory, estimated."),
    Gauge("num_requests_running", |p| p.gauges.running as f64, "Requests in the running batch."),
    Gauge("num_requests_waiting", |p| p.waiting() as f64, "Requests that the last step did not admit."),
    GaugeBy("num_requests_waiting_by_reason", "reason", &[
        ("capacity", |p| p.gauges.waiting as f64),
        ("deferred", |p| p.gauges.skipped as f64),
    ], "Waiting requests, by what they wait for."),
    GaugeBy("engine_sleep_state", "sleep_state", &[
        ("awake", |p| f64::from(u8::from(p.sleep_level == 0))),
        ("weights_offloaded", |p| f64::from(u8::from(p.sleep_level == 1))),
        ("discard_all", |p| f64::from(u8::from(p.sleep_level == 2))),
    ], "1 at the state the engine is in."),
    Gauge("kv_cache_usage_perc", |p| p.gauges.usage, "Share of KV blocks that live requests hold, 0 to 1."),
    Counter("prefix_cache_queries", |p| p.prefix_cache_queries as f64, "Tokens looked up in the prefix cache."),
    Counter("prefix_cache_hits", |p| p.prefix_cache_hits as f64, "Tokens found in the prefix cache."),
    Counter("external_prefix_cache_queries", NONE, "Tokens looked up in a connector's cache."),
    Counter("external_prefix_cache_hits", NONE, "Tokens found in a connector's cache."),
    Counter("mm_cache_queries", NONE, "Items looked up in the multimodal cache."),
    Counter("mm_cache_hits", NONE, "Items found in the multimodal cache."),
    Counter("num_preemptions", |p| p.preemptions as f64, "Requests put back to make room for others."),
    Counter("prompt_tokens", |p| p.prompt_tokens as f64, "Prompt tokens of requests that have their first token."),
    CounterBy("prompt_tokens_by_source", "source", &[
        ("local_compute", |p| (p.prompt_tokens - p.prompt_tokens_cached) as f64),
        ("local_cache_hit", |p| p.prompt_tokens_cached as f64),
        ("external_kv_transfer", NONE),
    ], "Prompt tokens, by where their KV came from."),
    Counter("prompt_tokens_cached", |p| p.prompt_tokens_cached as f64, "Prompt tokens found in a cache."),
    Counter("generation_tokens", |p| p.generation_tokens as f64, "Tokens generated."),
    CounterBy("request_success", "finished_reason", &[
        ("stop", |p| p.stopped as f64),
        ("length", |p| p.length_limited as f64),
        // A client that goes away is no success: what vLLM counts here are aborts of its own.
        ("abort", |p| p.aborted_by_engine as f64), ("error", NONE), ("repetition", NONE),
    ], "Requests that ended by themselves, by why."),
    Distribution("request_prompt_tokens", |h| &h.request_prompt_tokens, "Prompt tokens a request."),
    Distribution("request_generation_tokens", |h| &h.request_generation_tokens, "Generated tokens a request."),
    Distribution("iteration_tokens_total", |h| &h.iteration_tokens_total, "Tokens a step."),
    Distribution("request_max_num_generation_tokens", |h| &h.request_max_num_generation_tokens,
        "Generated tokens of a request's longest choice."),
    Distribution("request_params_n", |h| &h.request_params_n, "Parameter n of requests."),
    Distribution("request_params_max_tokens", |h| &h.request_params_max_tokens, "Parameter max_tokens of requests."),
    Distribution("time_to_first_token_seconds", |h| &h.time_to_first_token_seconds, "Time to the first token."),
    Distribution("inter_token_latency_seconds", |h| &h.inter_token_latency_seconds, "Time between two tokens."),
    Distribution("request_time_per_output_token_seconds", |h| &h.request_time_per_output_token_seconds,
        "Mean time between the tokens of a request."),
    Distribution("e2e_request_latency_seconds", |h| &h.e2e_request_latency_seconds, "Time from arrival to end."),
    Distribution("request_queue_time_seconds", |h| &h.request_queue_time_seconds, "Time before the first step."),
    Distribution("request_inference_time_seconds", |h| &h.request_inference_time_seconds,
        "Time from the first step to the last token."),
    Distribution("request_prefill_time_seconds", |h| &h.request_prefill_time_seconds,
        "Time from the first step to the first token."),
    Distribution("request_decode_time_seconds", |h| &h.request_decode_time_seconds,
        "Time from the first token to the last."),
    Distribution("request_prefill_kv_computed_tokens", |h| &h.request_prefill_kv_computed_tokens,
        "Prompt tokens computed a request."),
];

/// Writes the families of all ranks; the `created` series carry the server's start.
fn write(ranks: &[Published], model: &str, created: f64) -> String {
    let mut page = Page { text: String::with_capacity(48 << 10), ranks, model: escape(model).into_owned() };
    for family in FAMILIES {
        match family {
            Gauge(name, value, help) => {
                page.head(name, "", "gauge", help);
                page.series(name, "", value);
            }
            GaugeBy(name, label, values, help) => {
                page.head(name, "", "gauge", help);
                page.labelled(name, "", label, values);
            }
            Counter(name, value, help) => {
                page.head(name, "_total", "counter", help);
                page.series(name, "_total", value);
                page.head(name, "_created", "gauge", help);
                page.series(name, "_created", &|_| created);
            }
            CounterBy(name, label, values, help) => {
                page.head(name, "_total", "counter", help);
                page.labelled(name, "_total", label, values);
                page.head(name, "_created", "gauge", help);
                for (value, _) in *values {
                    page.rows(name, "_created", Some((label, value)), &|_| created);
                }
            }
            Distribution(name, histogram, help) => {
                page.head(name, "", "histogram", help);
                page.histogram(name, *histogram);
                page.head(name, "_created", "gauge", help);
                page.series(name, "_created", &|_| created);
            }
        }
    }
    page.cache_config();
    page.text
}

struct Page<'a> {
    text: String,
    ranks: &'a [Published],
    model: String,
}

// Writing to a String cannot fail: the results are dropped.
impl Page<'_> {
    fn head(&mut self, name: &str, suffix: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP vllm:{name}{suffix} {help}\n# TYPE vllm:{name}{suffix} {kind}");
    }

    fn series(&mut self, name: &str, suffix: &str, value: &dyn Fn(&Published) -> f64) {
        self.rows(name, suffix, None, value);
    }

    fn labelled(&mut self, name: &str, suffix: &str, label: &str, values: Labelled) {
        for (text, value) in values {
            self.rows(name, suffix, Some((label, text)), value);
        }
    }

    /// One row a rank; labels stand in the order of their names.
    fn rows(
        &mut self,
        name: &str,
        suffix: &str,
        label: Option<(&str, &str)>,
        value: &dyn Fn(&Published) -> f64,
    ) {
        let model = &self.model;
        for (engine, published) in self.ranks.iter().enumerate() {
            let text = &mut self.text;
            let _ = match label {
                None => write!(text, "vllm:{name}{suffix}{{engine=\"{engine}\",model_name=\"{model}\"}} "),
                Some((label, is)) if label < "model_name" => write!(
                    text,
                    "vllm:{name}{suffix}{{engine=\"{engine}\",{label}=\"{is}\",model_name=\"{model}\"}} "
                ),
                Some((label, is)) => write!(
                    text,
                    "vllm:{name}{suffix}{{engine=\"{engine}\",model_name=\"{model}\",{label}=\"{is}\"}} "
                ),
            };
            let _ = writeln!(text, "{}", float(value(published)));
        }
    }

    fn histogram(&mut self, name: &str, histogram: fn(&Histograms) -> &Histogram) {
        let model = &self.model;
        for (engine, published) in self.ranks.iter().enumerate() {
            let text = &mut self.text;
            let histogram = histogram(&published.histograms);
            for (bound, count) in histogram.buckets() {
                let bound = float(bound);
                let count = float(count as f64);
                let _ = writeln!(
                    text,
                    "vllm:{name}_bucket{{engine=\"{engine}\",le=\"{bound}\",model_name=\"{model}\"}} {count}"
                );
            }
            let (count, sum) = (float(histogram.count() as f64), float(histogram.sum()));
            let _ = writeln!(text, "vllm:{name}_count{{engine=\"{engine}\",model_name=\"{model}\"}} {count}");
            let _ = writeln!(text, "vllm:{name}_sum{{engine=\"{engine}\",model_name=\"{model}\"}} {sum}");
        }
    }

    /// The options of the cache as labels. vLLM has more of them; these are the ones that a simulated engine has.
    fn cache_config(&mut self) {
        self.head("cache_config_info", "", "gauge", "Options of the KV cache.");
        for (engine, published) in self.ranks.iter().enumerate() {
            let caching = if published.enable_prefix_caching { "True" } else { "False" };
            let _ = writeln!(
                self.text,
                "vllm:cache_config_info{{block_size=\"{}\",enable_prefix_caching=\"{caching}\",engine=\"{engine}\",\
                 num_gpu_blocks=\"{}\"}} 1.0",
                published.block_size, published.num_gpu_blocks
            );
        }
    }
}

/// Escapes a label's value.
fn escape(value: &str) -> Cow<'_, str> {
    match value.contains(['\\', '"', '\n']) {
        true => value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into(),
        false => value.into(),
    }
}

/// Writes a float as Python's client does: the shortest text that reads back, with an exponent of two digits from
/// 10^6 on.
fn float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value > 0.0 && !(1e-4..1e6).contains(&value) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_recorded() {
        for (value, text) in [
            (0.0, "0.0"),
            (120.0, "120.0"),
            (0.3284749984741211, "0.3284749984741211"),
            (1.7960768215280907e9, "1.7960768215280907e+09"),
            (18_800.0, "18800.0"),
            (f64::INFINITY, "+Inf"),
            (5e-5, "5e-05"),
        ] {
            assert_eq!(float(value), text);
        }
    }
}
