//! The task that polls one endpoint (configuration spec 5.3).

use std::rc::Rc;
use std::time::Duration;

use executor::{AbortHandle, Missed, Rt};

use super::dispatcher::{BoundSource, Dispatcher};
use super::endpoints::Endpoints;
use super::silence::Silence;
use crate::endpoint::EndpointId;
use crate::metrics::{Metric, Registry};

/// What all collectors share.
#[derive(Clone, Debug)]
pub(super) struct Collecting {
    rt: Rt,
    endpoints: Endpoints,
    sources: Rc<[BoundSource]>,
    base: Duration,
    silence: Silence,
    poll_errors: Metric,
    extract_errors: Metric,
}

impl Collecting {
    pub(super) fn new(
        rt: Rt,
        endpoints: Endpoints,
        sources: Vec<BoundSource>,
        base: Duration,
        silence: Silence,
        registry: &Registry,
    ) -> Self {
        Collecting {
            rt,
            endpoints,
            sources: sources.into(),
            base,
            silence,
            poll_errors: registry.metric("llm_d_epp_datalayer_poll_errors_total"),
            extract_errors: registry.metric("llm_d_epp_datalayer_extract_errors_total"),
        }
    }

    /// Starts to poll an endpoint; the first poll comes one base tick from now. Without sources there is nothing
    /// to do.
    pub(super) fn start(&self, id: EndpointId) -> Option<Collector> {
        if self.sources.is_empty() {
            return None;
        }
        let task = self.rt.daemon("collector", run(self.clone(), id));
        Some(Collector(task.abort_handle()))
    }
}

/// A running collector. Dropping it ends it: there is one thread, so it does nothing from then on.
#[derive(Debug)]
pub(super) struct Collector(AbortHandle);

impl Drop for Collector {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Polls until it is aborted: at each tick the sources that are due, one after the other.
async fn run(shared: Collecting, id: EndpointId) {
    // A tick that comes while a poll runs is taken once, right after it; more of them are left out.
    let mut ticker = shared.rt.interval_at(shared.rt.now() + shared.base, shared.base, Missed::Skip);
    let mut polls: Vec<Poll> = shared.sources.iter().map(Poll::new).collect();
    loop {
        ticker.tick().await;
        for poll in &mut polls {
            if poll.is_due() {
                poll.run(&shared, &id).await;
            }
        }
    }
}

/// One source of a collector.
struct Poll {
    dispatcher: Dispatcher,
    ticks_to_wait: u32,
    /// What failed last time is not logged again.
    poll_failing: bool,
    extract_failing: bool,
}

impl Poll {
    fn new(source: &BoundSource) -> Self {
        let dispatcher = Dispatcher::new(source.clone());
        Poll { dispatcher, ticks_to_wait: 0, poll_failing: false, extract_failing: false }
    }

    fn is_due(&mut self) -> bool {
        if self.ticks_to_wait > 0 {
            self.ticks_to_wait -= 1;
            return false;
        }
        self.ticks_to_wait = self.dispatcher.source().period.saturating_sub(1);
        true
    }

    async fn run(&mut self, shared: &Collecting, id: &EndpointId) {
        let said = self.dispatcher.dispatch(&shared.rt, &shared.endpoints, id).await;
        if let Some(model_server) = self.dispatcher.model_server() {
            match &said {
                Err(error) if error.is_silence() => shared.silence.unanswered(model_server),
                _ => shared.silence.answered(id),
            }
        }
        let BoundSource { source_type, extractors, .. } = self.dispatcher.source();
        let said = match said {
            Ok(said) => said,
            Err(error) => {
                shared.poll_errors.inc(&[source_type]);
                if !std::mem::replace(&mut self.poll_failing, true) {
                    tracing::warn!(endpoint = %id, source = &**source_type, %error, "poll failed");
                }
                return;
            }
        };
        if std::mem::take(&mut self.poll_failing) {
            tracing::info!(endpoint = %id, source = &**source_type, "poll succeeds again");
        }
        let mut failing = false;
        for ((extractor_type, _), said) in extractors.iter().zip(said) {
            let Err(error) = said else { continue };
            failing = true;
            shared.extract_errors.inc(&[source_type, extractor_type]);
            if !self.extract_failing {
                tracing::debug!(endpoint = %id, extractor = &**extractor_type, %error, "extraction failed");
            }
        }
        self.extract_failing = failing;
    }
}
