use executor::Instant;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::RequestEnd;

/// Requests between two looks at the bar.
const STRIDE: u64 = 32;

/// A bar on standard error with the requests that ended, the simulated time and its speed; nothing where
/// standard error is no terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    ended: u64,
    now: Instant,
}

impl Progress {
    /// Returns a bar over `total` requests, without a length where that is not known.
    pub fn on_terminal(total: Option<u64>) -> Self {
        Self::on(ProgressDrawTarget::stderr_with_hz(10), total)
    }

    /// Returns a bar that is never drawn.
    pub fn hidden() -> Self {
        Self::on(ProgressDrawTarget::hidden(), None)
    }

    fn on(target: ProgressDrawTarget, total: Option<u64>) -> Self {
        let template = match total {
            Some(_) => "{wide_bar} {human_pos}/{human_len} requests  {msg}",
            None => "{spinner} {human_pos} requests  {msg}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        Progress {
            bar: ProgressBar::with_draw_target(total, target).with_style(style),
            ended: 0,
            now: Instant::ZERO,
        }
    }

    pub(super) fn request_ended(&mut self, request: &RequestEnd<'_>) {
        self.ended += 1;
        self.now = self.now.max(request.end);
        if self.ended.is_multiple_of(STRIDE) && !self.bar.is_hidden() {
            let simulated = self.now.as_secs_f64();
            let speed = simulated / self.bar.elapsed().as_secs_f64().max(1e-3);
            self.bar.set_message(format!("{simulated:.0} s simulated, {speed:.0}x"));
            self.bar.set_position(self.ended);
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
