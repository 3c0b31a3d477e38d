use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle};

use super::{ClassSummary, Finished, LatencySummary, Summary};

/// Engines listed one by one; of more, only the busiest are.
const MAX_ENGINES: usize = 32;

/// What a run was about, for the head and the foot of its screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The workload in a few words: a file's name, `synthetic`.
    pub workload: String,
    /// The cluster in a few words: `16 x qwen3-14b on H100 (TP 1, roofline)`.
    pub cluster: String,
    /// The router's configuration in a few words: a file's name, `inline`.
    pub router: String,
    /// The command that repeats the run.
    pub repeat: String,
}

/// The one screen at the end of a run; displays as text.
#[derive(Debug)]
pub struct Screen<'a> {
    /// What was run.
    pub subject: &'a Subject,
    /// What it showed.
    pub finished: &'a Finished,
}

impl fmt::Display for Screen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { workload, cluster, router, repeat } = self.subject;
        let Finished { summary, failures, .. } = self.finished;
        writeln!(f, "workload     {workload}")?;
        writeln!(f, "cluster      {cluster}")?;
        writeln!(f, "router       {router}")?;
        writeln!(f)?;
        requests(f, summary, failures)?;
        writeln!(f)?;
        writeln!(f, "{}", latencies(summary).trim_fmt())?;
        writeln!(f)?;
        writeln!(
            f,
            "throughput   {:.2} requests/s, {} output tokens/s",
            summary.throughput.requests_per_s,
            grouped(summary.throughput.output_tokens_per_s.round() as u64)
        )?;
        writeln!(
            f,
            "prefix hits  {:.1} % of {} prompt tokens",
            summary.prefix_hit_rate * 100.0,
            grouped(summary.tokens.prompt)
        )?;
        writeln!(f, "preemptions  {}", grouped(summary.preemptions))?;
        writeln!(f)?;
        if !summary.tenants.is_empty() {
            writeln!(f, "{}", classes(summary).trim_fmt())?;
            writeln!(f)?;
        }
        engines(f, summary)?;
        writeln!(f)?;
        let wall = summary.wall_s.max(1e-9);
        writeln!(
            f,
            "simulated    {:.3} s in {:.2} s: {} times as fast; {} decisions, {} a second",
            summary.sim_s,
            summary.wall_s,
            grouped((summary.sim_s / wall).round() as u64),
            grouped(summary.decisions),
            grouped((summary.decisions as f64 / wall).round() as u64),
        )?;
        if let Some(signal) = &summary.interrupted {
            writeln!(
                f,
                "interrupted  by {signal}: what was open counts as cancelled, what was to come is left out"
            )?;
        }
        for finding in &summary.findings {
            writeln!(f, "finding      {finding}")?;
        }
        writeln!(f, "digest       {}", summary.digest)?;
        writeln!(f, "repeat       {repeat}")
    }
}

fn requests(f: &mut fmt::Formatter<'_>, summary: &Summary, failures: &[(String, u64)]) -> fmt::Result {
    let counts = summary.requests;
    writeln!(
        f,
        "requests     {} injected: {} done, {} failed, {} cancelled",
        grouped(counts.injected),
        grouped(counts.done),
        grouped(counts.failed),
        grouped(counts.cancelled)
    )?;
    for (reason, count) in failures {
        writeln!(f, "             {} failed: {reason}", grouped(*count))?;
    }
    Ok(())
}

fn latencies(summary: &Summary) -> Table {
    let mut table = plain_table(&["", "mean", "p50", "p90", "p99"]);
    for (name, latency) in
        [("TTFT ms", summary.ttft_ms), ("ITL ms", summary.itl_ms), ("E2E ms", summary.e2e_ms)]
    {
        let LatencySummary { mean, p50, p90, p99 } = latency;
        let numbers = [mean, p50, p90, p99].map(|ms| ms.map_or("-".to_owned(), |ms| format!("{ms:.2}")));
        table.add_row(std::iter::once(name.to_owned()).chain(numbers));
    }
    table
}

/// A row a band, each before those of its tenants.
fn classes(summary: &Summary) -> Table {
    let mut table = plain_table(&[
        "priority", "tenant", "requests", "done", "rejected", "wait ms", "p99", "TTFT ms", "p99", "tokens/s",
        "Jain",
    ]);
    let mut row = |priority: String, name: &str, got: &ClassSummary, jain: String| {
        let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        table.add_row([
            priority,
            name.to_owned(),
            grouped(got.requests.injected),
            grouped(got.requests.done),
            grouped(got.rejected),
            ms(got.wait_ms.mean),
            ms(got.wait_ms.p99),
            ms(got.ttft_ms.mean),
            ms(got.ttft_ms.p99),
            grouped(got.goodput_output_tokens_per_s.round() as u64),
            jain,
        ]);
    };
    for band in &summary.bands {
        let jain = band.jain_index.map_or("-".to_owned(), |index| format!("{index:.3}"));
        row(band.priority.to_string(), "all", &band.got, jain);
        for tenant in summary.tenants.iter().filter(|tenant| tenant.priority == band.priority) {
            row(String::new(), &tenant.name, &tenant.got, String::new());
        }
    }
    table
}

fn engines(f: &mut fmt::Formatter<'_>, summary: &Summary) -> fmt::Result {
    let total: u64 = summary.engines.iter().map(|engine| engine.requests).sum();
    let mut shown: Vec<_> = summary.engines.iter().collect();
    let hidden = shown.len().saturating_sub(MAX_ENGINES);
    if hidden > 0 {
        shown.sort_by_key(|engine| std::cmp::Reverse(engine.requests));
        shown.truncate(MAX_ENGINES);
    }
    let mut table = plain_table(&["engine", "requests", "share", "peak queue"]);
    for engine in shown {
        let share = 100.0 * engine.requests as f64 / total.max(1) as f64;
        table.add_row([
            engine.name.clone(),
            grouped(engine.requests),
            format!("{share:.1} %"),
            grouped(engine.peak_queue),
        ]);
    }
    writeln!(f, "{}", table.trim_fmt())?;
    if hidden > 0 {
        writeln!(f, "and {hidden} engines with fewer requests")?;
    }
    Ok(())
}

/// A table without lines, its first column to the left and the others to the right.
pub(crate) fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        let (side, padding) =
            if index == 0 { (CellAlignment::Left, (0, 1)) } else { (CellAlignment::Right, (2, 0)) };
        column.set_cell_alignment(side);
        column.set_padding(padding);
    }
    table
}

/// Returns the number with a comma between each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_threes() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
