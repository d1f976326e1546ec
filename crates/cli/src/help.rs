//! The two forms of help: `-h` fits on a screen, `--help` is complete.
//!
//! The options are described once, completely, where they are defined. `-h` prints the first sentence of each description, without those marked
//! `hide_short_help`, and examples instead of notes and exit codes.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// The commands by purpose, in the order of the help.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Simulate and emulate",
        &["demo", "run", "check", "emulate", "rerun", "merge"],
    ),
    (
        "Look at results",
        &["show", "report", "plot", "why", "export", "metrics"],
    ),
    (
        "Use the network",
        &["send", "recv", "tunnel", "perf", "ping", "echo", "keygen"],
    ),
    ("Schemes and studies", &["schemes", "schema", "study"]),
    ("Tools", &["completions", "man", "help"]),
];

/// Examples for `-h`.
const EXAMPLES: [(&str, &[&str]); 25] = [
    ("check", &["check two-radios.toml"]),
    (
        "completions",
        &["completions bash > ~/.local/share/bash-completion/completions/whimbrel"],
    ),
    ("demo", &["demo", "demo --json"]),
    (
        "echo",
        &[
            "echo --listen '[::]'",
            "echo --listen 192.0.2.1,198.51.100.1 --any-client",
        ],
    ),
    (
        "emulate",
        &[
            "emulate two-radios.toml --at phone -- ping -c 5 server",
            "emulate two-radios.toml --run 'server: iperf3 -s -1' --at phone -- iperf3 -c server",
        ],
    ),
    (
        "export",
        &["run two-radios.toml --out results", "export results --perfetto"],
    ),
    ("keygen", &["keygen", "keygen --shared key"]),
    ("man", &["man pages"]),
    ("merge", &["merge part-1 part-2 --out all"]),
    ("metrics", &["metrics"]),
    (
        "perf",
        &[
            "perf --server --listen 192.0.2.1,198.51.100.1",
            "perf 192.0.2.1,198.51.100.1 --time 30s",
        ],
    ),
    (
        "ping",
        &["ping 192.0.2.1,198.51.100.1", "ping 192.0.2.1 -c 100 -i 10ms --json"],
    ),
    ("plot", &["plot results", "plot results --pdf"]),
    (
        "recv",
        &[
            "recv --listen '[::]' inbox",
            "recv --listen 192.0.2.1,198.51.100.1 --peer t6pz7-h47t6-pz7h4-7t6pz-7h47t inbox",
        ],
    ),
    ("report", &["run two-radios.toml --out results", "report results"]),
    ("rerun", &["rerun results/manifest.json"]),
    (
        "run",
        &[
            "run two-radios.toml",
            "run two-radios.toml --seeds 20 --set link.wifi.loss.rate=0.02 --out results --report",
        ],
    ),
    ("schema", &["schema > scenario.schema.json"]),
    ("schemes", &["schemes", "schemes show multipath"]),
    (
        "send",
        &[
            "send photos --to 192.0.2.1,198.51.100.1",
            "send map.bin --to example.com --peer t6pz7-h47t6-pz7h4-7t6pz-7h47t --local 10.0.0.5,10.1.0.5",
        ],
    ),
    ("show", &["show results", "show results --metric goodput_mbps,timeouts"]),
    ("study list", &["study list"]),
    ("study run", &["study run headline --quick"]),
    (
        "tunnel",
        &[
            "tunnel --server --listen 192.0.2.1,198.51.100.1 --allow localhost:22",
            "tunnel 192.0.2.1,198.51.100.1 --forward 2222:localhost:22",
        ],
    ),
    ("why", &["run two-radios.toml --out results", "why results 100"]),
];

/// Returns the command with the two forms of help.
pub(crate) fn forms(command: Command) -> Command {
    let command = group(with_forms(command, ""));
    command.after_long_help(crate::output::EXIT_CODES)
}

/// `path`: the names of the commands to this one, without that of the program.
fn with_forms(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for name in &names {
        let path = format!("{path} {name}");
        command = command.mut_subcommand(name, |subcommand| with_forms(subcommand, path.trim_start()));
    }
    let is_longer = command.get_after_help().is_some() || command.get_long_about().is_some();
    let mut examples = String::new();
    if let Some((_, lines)) = EXAMPLES.iter().find(|(name, _)| *name == path) {
        examples.push_str("Examples:\n");
        for line in *lines {
            let _ = writeln!(examples, "  whimbrel {line}");
        }
    }
    if is_longer && !path.is_empty() {
        let _ = write!(examples, "All options, notes and exit codes: whimbrel {path} --help");
    }
    if let Some(full) = command.get_after_help().cloned() {
        command = command.after_long_help(full);
    }
    command.after_help(examples.trim_end().to_owned()).mut_args(shorten)
}

/// Lets `-h` print only the first sentence of a description, without the fields of JSON objects.
fn shorten(arg: Arg) -> Arg {
    let Some(full) = arg
        .get_help()
        .filter(|_| arg.get_long_help().is_none())
        .map(ToString::to_string)
    else {
        return arg;
    };
    let sentence = full.split_once(". ").map_or(&full[..], |(first, _)| first);
    let short = sentence
        .split_once(": {")
        .map_or(sentence, |(first, _)| first)
        .to_owned();
    if short == full {
        return arg;
    }
    arg.help(short).long_help(full)
}

/// Lists the commands by purpose.
fn group(command: Command) -> Command {
    let mut list = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(list, "{heading}:");
        for name in names {
            let about = match command.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print this message or the help of a command".to_owned(),
            };
            let _ = writeln!(list, "  {name:<12} {about}");
        }
    }
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{list}\nOptions:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a terminal, less the prompt and the command.
    const SCREEN: usize = 40;
    const COLUMNS: usize = 100;

    /// Calls `visit` with the path and the two forms of help of each command that people call.
    fn walk(command: &Command, path: &str, visit: &mut impl FnMut(&str, &str, &str)) {
        let mut one = command.clone();
        visit(
            path,
            &one.render_help().to_string(),
            &one.render_long_help().to_string(),
        );
        for sub in command
            .get_subcommands()
            .filter(|c| c.get_name() != "help" && !c.is_hide_set())
        {
            walk(sub, format!("{path} {}", sub.get_name()).trim_start(), visit);
        }
    }

    fn built() -> Command {
        let mut command = crate::command();
        command.build();
        command
    }

    #[test]
    fn short_help_fits_on_a_screen_and_shows_examples() {
        let mut visited = 0;
        walk(&built(), "", &mut |path, short, long| {
            visited += 1;
            assert!(
                short.lines().count() <= SCREEN,
                "{path}: {} lines\n{short}",
                short.lines().count()
            );
            let widest = short.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= COLUMNS, "{path}: {widest} columns\n{short}");
            if !path.is_empty()
                && ![
                    "study",
                    "study results",
                    "study falsify",
                    "schemes show",
                    "schemes parts",
                ]
                .contains(&path)
            {
                assert!(short.contains("Examples:\n  whimbrel "), "{path}: {short}");
            }
            assert!(long.len() >= short.len() || !short.contains("--help"), "{path}");
        });
        assert!(visited > 25, "{visited}");
    }

    #[test]
    fn long_help_describes_every_option_completely() {
        let command = built();
        let send = command.find_subcommand("send").expect("it exists");
        let (short, long) = (
            send.clone().render_help().to_string(),
            send.clone().render_long_help().to_string(),
        );
        for option in ["--record", "--auth-only", "--idle-timeout", "--set"] {
            assert!(!short.contains(option), "{short}");
        }
        assert!(!short.contains("\"sha256\""), "{short}");
        for text in [
            "--record",
            "\"sha256\"",
            "--auth-only",
            "`whimbrel export DIR`",
            "Exit codes:",
            "Security:",
            "Each end applies it",
        ] {
            let words: Vec<_> = long.split_whitespace().collect();
            assert!(
                words.join(" ").to_lowercase().contains(&text.to_lowercase()),
                "{text}: {long}"
            );
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let visible = command
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
            .map(Command::get_name);
        let mut all: Vec<&str> = visible.chain(["help"]).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        all.dedup();
        assert_eq!(grouped, all);
    }

    // An example that the command refuses is worse than none.
    #[test]
    fn the_examples_are_accepted() {
        for (_, lines) in EXAMPLES {
            for line in lines {
                let words = line.split(" > ").next().unwrap_or(line);
                let mut all = vec!["whimbrel".to_owned()];
                let mut parts = words.split('\'');
                while let Some(plain) = parts.next() {
                    all.extend(plain.split_whitespace().map(str::to_owned));
                    all.extend(parts.next().map(str::to_owned));
                }
                // Names are resolved.
                let all = all.iter().map(|word| word.replace("example.com", "localhost"));
                let outcome = crate::command().try_get_matches_from(all);
                assert!(outcome.is_ok(), "{line}: {outcome:?}");
            }
        }
    }
}
