//! The series of a server's `/metrics`.

use std::collections::BTreeMap;

use engines::model_server::ModelServer;
use executor::http::Body;

/// The most of a page that is read.
const PAGE: usize = 1 << 20;

/// Asks a server for its page; returns the values by series, labels as they stand there.
pub(super) async fn of(server: &ModelServer) -> BTreeMap<String, f64> {
    let request = ::http::Request::get("/metrics").body(Body::Empty).expect("a path");
    let page = server.handle(request).await.into_body().bytes(PAGE).await.unwrap_or_default();
    let page = String::from_utf8_lossy(&page).into_owned();
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        })
        .collect()
}
