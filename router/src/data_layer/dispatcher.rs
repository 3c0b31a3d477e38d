//! One source polled for one endpoint, and what its extractors make of it (configuration spec 6.1).

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use executor::Rt;

use super::endpoints::Endpoints;
use super::engine_gauges::EngineGauges;
use super::poll::{Target, poll};
use super::{ExtractError, Extractor, Payload, PayloadKind, PollingSource};
use crate::endpoint::{EndpointId, EndpointMetadata};

pub use super::poll::PollError;

/// A poll must be done in this time.
const DEADLINE: Duration = Duration::from_secs(1);

/// A polling source with what reads its payload.
#[derive(Clone)]
pub struct BoundSource {
    /// Plugin type, a metric label.
    pub source_type: Rc<str>,
    /// The source.
    pub source: Rc<dyn PollingSource>,
    /// Its extractors with their plugin types, in order of binding.
    pub extractors: Vec<(Rc<str>, Rc<dyn Extractor>)>,
    /// Every how many base ticks it polls, see [`tick::period`](super::tick::period).
    pub period: u32,
}

/// Polls one source for one endpoint again and again.
#[derive(Debug)]
pub struct Dispatcher {
    source: BoundSource,
    known: Option<Known>,
}

/// What depends on the metadata of the endpoint alone.
#[derive(Debug)]
struct Known {
    metadata: Rc<EndpointMetadata>,
    target: Target,
    /// All that the extractors ask for is among the gauges that an engine in this process has as values.
    gauges: bool,
    /// It polls the address that requests go to.
    own_address: bool,
}

impl Dispatcher {
    /// Returns a dispatcher that has not polled yet.
    pub fn new(source: BoundSource) -> Self {
        Dispatcher { source, known: None }
    }

    /// Returns the source.
    pub fn source(&self) -> &BoundSource {
        &self.source
    }

    /// Polls the endpoint `id` and lets the extractors update it. Returns what each extractor said, in order;
    /// no extractor ran, and nothing changed, where the poll failed or the endpoint is gone.
    ///
    /// # Cancel safety
    /// Dropping the future ends the poll; extractors run at once or not at all.
    pub async fn dispatch(
        &mut self,
        rt: &Rt,
        endpoints: &Endpoints,
        id: &EndpointId,
    ) -> Result<Vec<Result<(), ExtractError>>, PollError> {
        let Some(endpoint) = endpoints.get(id) else { return Ok(Vec::new()) };
        let payload = self.poll(rt, &endpoint.metadata).await?;
        // Not held over the update, which would have to copy the endpoint.
        drop(endpoint);
        let now = rt.now();
        let extractors = self.source.extractors.iter();
        let said = endpoints.update(id, |endpoint| {
            extractors.map(|(_, extractor)| extractor.extract(&payload, endpoint, now)).collect()
        });
        Ok(said.unwrap_or_default())
    }

    /// Returns the endpoint as of the last poll, where that went to the address that requests go to.
    pub(super) fn model_server(&self) -> Option<&EndpointMetadata> {
        self.known.as_ref().filter(|known| known.own_address).map(|known| &*known.metadata)
    }

    async fn poll(&mut self, rt: &Rt, metadata: &Rc<EndpointMetadata>) -> Result<Payload, PollError> {
        let known = match self.known.take() {
            Some(known) if Rc::ptr_eq(&known.metadata, metadata) => known,
            _ => {
                let target = Target::parse(&self.source.source.url(metadata))?;
                Known {
                    metadata: Rc::clone(metadata),
                    own_address: target.is_at(&metadata.host_port()),
                    target,
                    gauges: self.source.gauges_suffice(metadata),
                }
            }
        };
        let known = self.known.insert(known);
        let poll = poll(rt, &*self.source.source, &known.target, known.gauges);
        rt.timeout(DEADLINE, poll).await.unwrap_or(Err(PollError::Timeout))
    }
}

impl BoundSource {
    pub(super) fn gauges_suffice(&self, endpoint: &EndpointMetadata) -> bool {
        let mut extractors = self.extractors.iter();
        self.source.payload() == PayloadKind::Metrics
            && extractors
                .all(|(_, extractor)| extractor.families(endpoint).into_iter().all(EngineGauges::covers))
    }
}

impl fmt::Debug for BoundSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundSource")
            .field("source_type", &self.source_type)
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}
