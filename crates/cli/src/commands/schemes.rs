//! `whimbrel schemes`: named bundles of parts, and the parts.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};
use whimbrel_scenario::{Accounting, PartText, Scheme, families, scheme_snippet, word_hint, wrapped};

use crate::output::{EXIT_CODES, Outcome, WRONG_USE, exit, fail, print, print_json};

/// List the schemes, show the parts of a scheme, or list all parts
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Print one JSON object with all schemes and parts instead of the list: {"schemes": [{"name", "summary", "source", "parts": {SLOT:
    /// NAME}, "toml"}], "slots": [{"slot", "parts": [{"name", "summary", "source", "parameters": [{"name", "default", "meaning"}]}]}]}
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Print a scheme as text for a scenario file
    Show {
        /// The scheme's name
        name: String,
        /// Print one JSON object: that of the scheme in `schemes --json`
        #[arg(long)]
        json: bool,
    },
    /// List the parts of schemes with their parameters, by slot
    Parts {
        /// Only the part with this name, or only the parts of this slot: discriminator, window, distribution, coupling or path_policy
        name: Option<String>,
        /// Print one JSON object: the slots of `schemes --json` that have these parts, {"slots": [...]}
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(match &args.command {
        None if args.json => print_json(&registry()),
        None => print(&list()),
        Some(Command::Show { name, json }) => show(name, *json),
        Some(Command::Parts { name, json }) => parts(name.as_deref(), *json),
    })
}

fn list() -> String {
    let mut text = String::new();
    for scheme in Scheme::all() {
        let parts = scheme.parts();
        let mut made_of = format!("{} + {}", parts.discriminator.name(), parts.window.name());
        let retransmit_path = serde_json::to_value(parts.retransmit_path).unwrap_or_default();
        let retransmissions = format!("retransmissions {}", retransmit_path.as_str().unwrap_or_default());
        let extras = [
            (parts.recovery != Default::default(), "recovery"),
            (parts.ecn && !parts.ecn_cwr, "ecn"),
            (parts.ecn_cwr, "ecn with cwr"),
            (parts.l4s, "ect(1)"),
            (parts.eci, "eci"),
            (parts.timestamps, "timestamps"),
            (parts.pacing, "pacing"),
            (parts.accounting == Accounting::Path, "path sequence numbers"),
            (parts.accounting == Accounting::Cmt, "cmt"),
            (parts.distribution != Default::default(), parts.distribution.name()),
            (parts.coupling != Default::default(), parts.coupling.name()),
            (parts.buffer_split != Default::default(), "buffers split"),
            (parts.retransmit_path != Default::default(), retransmissions.as_str()),
            (parts.path_policy != Default::default(), parts.path_policy.name()),
            (parts.reporting != Default::default(), "reporting"),
        ];
        for (_, extra) in extras.iter().filter(|(is_on, _)| *is_on) {
            let _ = write!(made_of, ", {extra}");
        }
        let _ = writeln!(text, "{:<16}{}", scheme.name(), scheme.summary());
        let _ = writeln!(text, "{:<16}{made_of} ({})", "", scheme.source());
    }
    text
}

/// Returns all schemes and parts as JSON.
fn registry() -> Value {
    let slots = families().into_iter().map(|(slot, parts)| slot_json(slot, &parts));
    json!({ "schemes": Scheme::all().map(scheme_json).collect::<Value>(), "slots": slots.collect::<Value>() })
}

fn scheme_json(scheme: Scheme) -> Value {
    let parts = scheme.parts();
    json!({
        "name": scheme.name(),
        "summary": scheme.summary(),
        "source": scheme.source(),
        "parts": {
            "discriminator": parts.discriminator.name(),
            "window": parts.window.name(),
            "distribution": parts.distribution.name(),
            "coupling": parts.coupling.name(),
            "path_policy": parts.path_policy.name(),
        },
        "toml": scheme_snippet(scheme),
    })
}

fn slot_json(slot: &str, parts: &[PartText]) -> Value {
    let part = |part: &PartText| {
        let parameters = part.parameters.iter().map(
            |parameter| json!({ "name": parameter.name, "default": parameter.default, "meaning": parameter.meaning }),
        );
        json!({
            "name": part.info.name,
            "summary": part.info.summary,
            "source": part.info.source,
            "parameters": parameters.collect::<Value>(),
        })
    };
    json!({ "slot": slot, "parts": parts.iter().map(part).collect::<Value>() })
}

fn show(name: &str, json: bool) -> Outcome {
    match Scheme::by_name(name) {
        Some(scheme) if json => print_json(&scheme_json(scheme)),
        Some(scheme) => print(&scheme_snippet(scheme)),
        None => Err(fail(
            WRONG_USE,
            unknown("scheme", name, Scheme::all().map(Scheme::name)),
        )),
    }
}

fn unknown(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<_> = known.collect();
    // There are too many parts for a list of all.
    let hint = word_hint(name, &known, &format!("{what}s"));
    let hint = hint.unwrap_or_else(|| "`whimbrel schemes parts` lists all, by slot".to_owned());
    format!("there is no {what} `{name}`; {hint}")
}

fn parts(name: Option<&str>, json: bool) -> Outcome {
    let mut families = Vec::from(families());
    let names: Vec<&'static str> = families
        .iter()
        .flat_map(|(slot, parts)| parts.iter().map(|part| part.info.name).chain([*slot]))
        .collect();
    if let Some(name) = name {
        for (slot, parts) in &mut families {
            parts.retain(|part| name == part.info.name || name == *slot);
        }
        families.retain(|(_, parts)| !parts.is_empty());
        if families.is_empty() {
            return Err(fail(WRONG_USE, unknown("part", name, names.into_iter())));
        }
    }
    if json {
        let slots = families.iter().map(|(slot, parts)| slot_json(slot, parts));
        return print_json(&json!({ "slots": slots.collect::<Value>() }));
    }
    let mut text = String::new();
    for (slot, parts) in &families {
        parts.iter().for_each(|part| describe(&mut text, slot, part));
    }
    print(&text)
}

fn describe(text: &mut String, slot: &str, part: &PartText) {
    let info = part.info;
    let _ = writeln!(text, "{slot} = \"{}\"  {} ({})", info.name, info.summary, info.source);
    for parameter in &part.parameters {
        let default = parameter.default.as_deref().unwrap_or("absent");
        let _ = writeln!(text, "    {} = {default}", parameter.name);
        for line in wrapped(&parameter.meaning, 100) {
            let _ = writeln!(text, "        {line}");
        }
    }
    text.push('\n');
}
