//! Puts submissions that come close together into one request to the prediction server.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::sync::{Semaphore, oneshot};
use executor::{Rt, Stream};
use serde::{Deserialize, Serialize};

use super::{Prediction, PredictionError, PredictionRow, Settings};
use crate::outbound::Server;

/// Where predictions are asked for.
const PATH: &str = "/predict/bulk/strict";

pub(super) type Answer = Result<Vec<Prediction>, PredictionError>;

/// Collects submissions until a window is over, and sends them on.
pub(super) struct Coalescer {
    rt: Rt,
    dispatcher: Rc<Dispatcher>,
    window: Duration,
    most_rows: Option<usize>,
    open: Rc<RefCell<Open>>,
}

/// The window that is open, if one is.
#[derive(Default)]
struct Open {
    batch: Batch,
    /// Counts windows, so that the timer of one that ended early does not end the next.
    window: u64,
}

/// Submissions, in order.
#[derive(Default)]
struct Batch {
    rows: Vec<PredictionRow>,
    waiting: Vec<(usize, oneshot::Sender<Answer>)>,
}

impl Coalescer {
    pub(super) fn new(rt: Rt, settings: &Settings, servers: Stream) -> Self {
        let dispatcher = Dispatcher {
            servers: settings.prediction.clone(),
            draws: RefCell::new(servers),
            timeout: settings.http_timeout,
            permits: rt.semaphore(settings.concurrent_dispatches),
            rt: rt.clone(),
        };
        Coalescer {
            rt,
            dispatcher: Rc::new(dispatcher),
            window: settings.coalesce_window,
            most_rows: settings.coalesced_rows,
            open: Rc::default(),
        }
    }

    /// Submits rows, and returns where their predictions will be told.
    pub(super) fn submit(&self, rows: Vec<PredictionRow>) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = self.rt.oneshot();
        let mut open = self.open.borrow_mut();
        let opens = open.batch.rows.is_empty();
        open.batch.waiting.push((rows.len(), sender));
        open.batch.rows.extend(rows);
        if self.window.is_zero() || self.most_rows.is_some_and(|most| open.batch.rows.len() >= most) {
            open.window += 1;
            self.dispatcher.start(std::mem::take(&mut open.batch));
        } else if opens {
            self.start_timer(open.window);
        }
        receiver
    }

    fn start_timer(&self, window: u64) {
        let (rt, duration) = (self.rt.clone(), self.window);
        let (open, dispatcher) = (Rc::clone(&self.open), Rc::clone(&self.dispatcher));
        let seal = async move {
            rt.sleep(duration).await;
            let mut open = open.borrow_mut();
            if open.window == window {
                open.window += 1;
                dispatcher.start(std::mem::take(&mut open.batch));
            }
        };
        drop(self.rt.spawn_local("prediction window", seal));
    }
}

/// Sends batches, so many at once.
struct Dispatcher {
    rt: Rt,
    servers: Vec<Server>,
    draws: RefCell<Stream>,
    timeout: Duration,
    permits: Semaphore,
}

#[derive(Serialize)]
struct Request<'a> {
    requests: &'a [PredictionRow],
}

#[derive(Deserialize)]
struct Response {
    predictions: Option<Vec<Prediction>>,
}

impl Dispatcher {
    fn start(self: &Rc<Self>, batch: Batch) {
        let dispatcher = Rc::clone(self);
        let dispatch = async move {
            let Batch { rows, waiting } = batch;
            let answer = dispatcher.ask(&rows).await;
            let mut first = 0;
            for (count, sender) in waiting {
                let own = match &answer {
                    Ok(predictions) => {
                        predictions.get(first..first + count).map(<[_]>::to_vec).ok_or_else(|| {
                            let found = predictions.len();
                            let total = rows.len();
                            PredictionError::Server(format!("{found} predictions for {total} requests"))
                        })
                    }
                    Err(error) => Err(error.clone()),
                };
                first += count;
                // Whoever gave up does not listen any more.
                let _ = sender.send(own);
            }
        };
        drop(self.rt.spawn_local("prediction", dispatch));
    }

    async fn ask(&self, rows: &[PredictionRow]) -> Answer {
        let failed = |why: String| PredictionError::Server(format!("prediction failed: {why}"));
        let _permit = self.permits.acquire().await.map_err(|_| failed("the client is closed".to_owned()))?;
        let json =
            serde_json::to_vec(&Request { requests: rows }).map_err(|error| failed(error.to_string()))?;
        let server = self.draws.borrow_mut().pick(&self.servers).cloned();
        let server = server.ok_or_else(|| failed("there is no server".to_owned()))?;
        let answer = self.rt.timeout(self.timeout, server.post(&self.rt, PATH, json)).await;
        let answer = answer.map_err(|_| failed(format!("no answer within {:?}", self.timeout)))?;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        if answer.status != http::StatusCode::OK {
            return Err(failed(format!("the server answered {}", answer.status)));
        }
        let response: Response =
            serde_json::from_slice(&answer.body).map_err(|error| failed(error.to_string()))?;
        Ok(response.predictions.unwrap_or_default())
    }
}
