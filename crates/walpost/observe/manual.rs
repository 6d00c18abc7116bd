//! Renders the table of `docs/monitoring.md` from the definitions of the figures.

use std::fmt::Write;

use super::metrics::{Kind, METRICS};

/// Between these two lines of the page stands what is generated.
pub const MARKS: [&str; 2] = [
    "<!-- Generated: `walpost config metrics` prints it. A test fails when it is stale. -->\n",
    "<!-- End of what is generated. -->\n",
];

/// The table of figures, as Markdown.
#[must_use]
pub fn render() -> String {
    let mut table = String::from("| figure | labels | kind | |\n|---|---|---|---|\n");
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing to a `String` cannot fail.
        let _ = writeln!(table, "| `{}` | {} | {kind} | {} |", metric.name, labels.join(", "), metric.help);
    }
    table
}
