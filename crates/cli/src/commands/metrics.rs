//! `whimbrel metrics`: definitions of the metrics, and the time that each covers.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::json;
use whimbrel_lab::metrics;

use crate::output::{exit, print, print_json};

/// List the metrics: name, definition, and the time that each covers
///
/// The names are those in result files and for --metric.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print a Markdown table
    #[arg(long)]
    markdown: bool,
    /// Print one JSON object: {"metrics": [{"name", "label", "definition", "covers"}]}
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
}

const HEAD: &str = "\
# Metrics

Made by `cargo xtask generate` from `crates/lab/src/metric.rs`. The names are those of `results.csv`, of the JSON that `run --json` prints, of
`--metric` and of studies. Metrics follow the measurement window, `measure.from` to `measure.to`, unless the third column says otherwise.

| name | meaning | covers |
|---|---|---|
";

pub(crate) fn run(args: &Args) -> ExitCode {
    let mut text = String::new();
    if args.markdown {
        text.push_str(HEAD);
    }
    let mut list = Vec::new();
    for metric in metrics() {
        let covers = match (metric.whole_run, metric.of_run) {
            (true, _) => "the whole run",
            (false, true) => "the window; all flows together",
            (false, false) => "the window",
        };
        if args.json {
            list.push(
                json!({ "name": metric.name, "label": metric.label, "definition": metric.doc, "covers": covers }),
            );
            continue;
        }
        let _ = if args.markdown {
            writeln!(
                text,
                "| `{}` | {}: {} | {covers} |",
                metric.name, metric.label, metric.doc
            )
        } else {
            writeln!(text, "{}  {}; {covers}", metric.name, metric.doc)
        };
    }
    if args.json {
        return exit(print_json(&json!({ "metrics": list })));
    }
    exit(print(&text))
}
