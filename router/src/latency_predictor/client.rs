use std::cell::RefCell;
use std::time::Duration;

use executor::{Instant, Rt, Stream};
use futures::future::LocalBoxFuture;
use http::StatusCode;
use serde::Serialize;

use super::coalescer::Coalescer;
use super::training::sample;
use super::{LatencyPredictor, Prediction, PredictionError, PredictionRow, Settings, TrainingEntry};
use crate::outbound::Server;
use crate::plugin::{Periodic, Startup};

/// Where measured latencies go.
const TRAIN: &str = "/add_training_data_bulk";

/// What is asked at the start and from time to time; the answers are of no consequence but that they come.
const MODEL: &str = "/model/download/info";
const STATUS: &str = "/status";

/// A predictor behind two servers, one that predicts and one that learns.
pub struct Client {
    rt: Rt,
    settings: Settings,
    coalescer: Coalescer,
    core: RefCell<Core>,
}

struct Core {
    buffered: Vec<TrainingEntry>,
    draws: Stream,
    refreshed: Instant,
}

#[derive(Serialize)]
struct Entries {
    entries: Vec<TrainingEntry>,
}

impl Client {
    /// Returns a client; `draws` chooses among servers and entries.
    pub fn new(rt: Rt, settings: Settings, draws: &Stream) -> Self {
        let core = Core { buffered: Vec::new(), draws: draws.fork(1), refreshed: rt.now() };
        let coalescer = Coalescer::new(rt.clone(), &settings, draws.fork(2));
        Client { rt, settings, coalescer, core: RefCell::new(core) }
    }

    fn check(&self, rows: &[PredictionRow]) -> Result<(), PredictionError> {
        let most = self.settings.bulk_size;
        match rows.len() {
            0 => return Err(PredictionError::NoRows),
            rows if rows > most => return Err(PredictionError::TooManyRows { rows, most }),
            _ => {}
        }
        for (row, checked) in rows.iter().map(PredictionRow::check).enumerate() {
            checked.map_err(|error| PredictionError::Row { row, error })?;
        }
        Ok(())
    }

    /// Sends what was learned since the last time.
    fn flush(&self) {
        let core = &mut *self.core.borrow_mut();
        let entries = std::mem::take(&mut core.buffered);
        if entries.is_empty() {
            return;
        }
        let entries = sample(entries, self.settings.sample_size, &mut core.draws);
        let count = entries.len();
        let json = serde_json::to_vec(&Entries { entries }).map_err(|error| error.to_string());
        let (rt, server, limit) =
            (self.rt.clone(), self.settings.training.clone(), self.settings.http_timeout);
        drop(self.rt.daemon("training data", async move {
            let sent = async {
                let answer = rt.timeout(limit, server.post(&rt, TRAIN, json?)).await;
                let answer = answer.map_err(|_| format!("no answer within {limit:?}"))?;
                let answer = answer.map_err(|error| error.to_string())?;
                match answer.status {
                    StatusCode::ACCEPTED => Ok(()),
                    status => Err(format!("the server answered {status}")),
                }
            };
            if let Err::<(), String>(error) = sent.await {
                tracing::warn!(?server, count, error, "training data of the latency predictor are lost");
            }
        }));
    }

    /// Sees whether the servers are there.
    fn refresh(&self) {
        let asked = [
            (self.settings.prediction.first().cloned(), STATUS),
            (Some(self.settings.training.clone()), MODEL),
        ];
        for (server, path) in asked {
            let Some(server) = server else { continue };
            let (rt, limit) = (self.rt.clone(), self.settings.http_timeout);
            drop(self.rt.daemon("latency predictor status", async move {
                if let Err(error) = status(&rt, &server, path, limit).await {
                    tracing::warn!(?server, path, error, "the latency predictor does not answer");
                }
            }));
        }
    }
}

async fn status(rt: &Rt, server: &Server, path: &str, limit: Duration) -> Result<(), String> {
    let answer = rt.timeout(limit, server.get(rt, path)).await;
    let answer = answer.map_err(|_| format!("no answer within {limit:?}"))?;
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status.is_success() { Ok(()) } else { Err(format!("the server answered {}", answer.status)) }
}

impl LatencyPredictor for Client {
    fn predict(
        &self,
        rows: Vec<PredictionRow>,
    ) -> LocalBoxFuture<'static, Result<Vec<Prediction>, PredictionError>> {
        match self.check(&rows) {
            Err(error) => Box::pin(async { Err(error) }),
            Ok(()) => {
                let answer = self.coalescer.submit(rows);
                Box::pin(async move {
                    let dropped = |_| PredictionError::Server("the prediction was given up".to_owned());
                    answer.await.map_err(dropped)?
                })
            }
        }
    }

    fn learn(&self, entry: TrainingEntry) {
        match entry.check() {
            Ok(()) => self.core.borrow_mut().buffered.push(entry),
            Err(error) => tracing::debug!(%error, "a measured latency is of no use to the predictor"),
        }
    }
}

impl Startup for Client {
    fn start(&self) {
        self.refresh();
    }
}

impl Periodic for Client {
    fn period(&self) -> Duration {
        self.settings.flush_interval
    }

    fn tick(&self, now: Instant) {
        self.flush();
        let refreshed = &mut self.core.borrow_mut().refreshed;
        if now - *refreshed >= self.settings.metrics_interval {
            *refreshed = now;
            self.refresh();
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).finish_non_exhaustive()
    }
}
