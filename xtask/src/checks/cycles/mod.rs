//! `cargo xtask cycles`: lists import cycles between the modules of a crate, and cycles of calls between the files of a type.
//!
//! A module is a file. It imports another one if a path in it (`use crate::...`, `super::name`, `child::name`) leads to an item that the
//! other one defines. Re-exports are followed to the file that defines the item, and are no imports themselves.
//!
//! Files that implement one type need no imports to call each other: a method calls another one through `self`. Such calls are counted
//! for each type of which several files have `impl` blocks. Functions that take the type as an argument, and default methods of traits, are
//! not counted.
//!
//! Code for tests does not count. The scan reads text, not syntax trees: it knows no names that macros build.

mod calls;
mod components;
mod scan;
mod tokens;

use std::path::PathBuf;

use crate::chore::{Outcome, root, say};
use crate::files::entries;
use calls::Calls;
use components::{Graph, cycles};
use scan::Sources;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this crate, by the name of its folder in crates/, or xtask
    only: Option<String>,
    /// Print every import and call between two files of a cycle
    #[arg(long)]
    edges: bool,
}

/// The import cycles of each crate that has some: the numbers of their files, the largest first. They are compared for equality, so that
/// two cycles do not become one, and a smaller number is written down.
const ALLOWED: &[(&str, &[usize])] = &[
    ("emu", &[2]),
    ("lab", &[3, 3]),
    // A scenario makes runs, and runs know their scenario.
    ("python", &[2]),
    ("scenario", &[3, 2]),
    ("sim", &[4, 4, 3, 3, 2, 2]),
    // The service has sockets, which have associations; an association reports its end to its socket and to the service.
    ("sockets", &[5]),
    // A transport is bound with the configuration that names it; a clock makes the timers that read it.
    ("whimbrel", &[3, 2]),
    ("wire", &[4, 3, 2]),
];

/// The cycles of calls between the files of each type that has some, by crate and type.
const ALLOWED_CALLS: &[(&str, &str, &[usize])] = &[
    ("control", "window::bbr::Bbr", &[2]),
    ("proto", "association::Association", &[17]),
    ("proto", "endpoint::Endpoint", &[4]),
    ("proto", "receive::Receiver", &[3]),
    ("proto", "send::Sending", &[20]),
    ("proto", "send::ring::outstanding::Outstanding", &[5]),
    ("sim", "host::tcp::sender::TcpSender", &[4]),
    ("sim", "network::Network", &[4]),
    ("sim", "radio::Radios", &[4]),
    ("sim", "routing::aodv::Aodv", &[3]),
    ("sim", "routing::dsr::Dsr", &[3]),
];

pub(crate) fn run(args: &Args) -> Outcome {
    let crates = crates()?;
    if let Some(only) = &args.only
        && !crates.iter().any(|(name, _)| name == only)
    {
        return Err(format!(
            "there is no crate {only}: the name of a folder in crates/, or xtask"
        ));
    }
    let mut others = Vec::new();
    for (name, folder) in crates {
        if args.only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let sources = Sources::read(&folder)?;
        if !imports(&name, &sources, args.edges) {
            others.push(format!("imports in {name}"));
        }
        let of_types = calls(&name, &sources, args.edges);
        others.extend(of_types.map(|of| format!("calls of {of} in {name}")));
    }
    if others.is_empty() {
        return Ok(());
    }
    Err(format!(
        "other cycles than ALLOWED and ALLOWED_CALLS list (break new ones, write smaller numbers down): {}",
        others.join("; ")
    ))
}

/// Returns the numbers of files in cycles, the largest first.
fn sizes(cycles: &[Vec<usize>]) -> Vec<usize> {
    let mut sizes: Vec<usize> = cycles.iter().map(Vec::len).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// Prints the import cycles of a crate. Returns whether they are the allowed ones.
fn imports(name: &str, sources: &Sources, edges: bool) -> bool {
    let graph = sources.imports();
    let cycles = cycles(&graph);
    let sizes = sizes(&cycles);
    let allowed = ALLOWED.iter().find(|(known, _)| *known == name);
    let allowed = allowed.map_or(&[][..], |(_, sizes)| *sizes);
    say(&format!(
        "{name}: {} modules, cycles of {sizes:?} files, allowed {allowed:?}",
        graph.len()
    ));
    for cycle in &cycles {
        print(cycle, &graph, edges, |at| sources.name(at), |_, _| String::new());
    }
    sizes == allowed
}

/// Prints the cycles of calls of a crate. Returns the types whose cycles are not the allowed ones.
fn calls(name: &str, sources: &Sources, edges: bool) -> impl Iterator<Item = String> {
    let mut others = Vec::new();
    let mut listed: Vec<&str> = ALLOWED_CALLS
        .iter()
        .filter(|(known, ..)| *known == name)
        .map(|(_, of, _)| *of)
        .collect();
    for (of, blocks) in sources.blocks() {
        let calls = Calls::of(&blocks);
        let cycles = cycles(&calls.graph);
        if cycles.is_empty() {
            continue;
        }
        let of = sources.type_name(&of);
        listed.retain(|known| *known != of);
        let sizes = sizes(&cycles);
        let known = ALLOWED_CALLS
            .iter()
            .find(|(known, of_type, _)| *known == name && *of_type == of);
        let allowed = known.map_or(&[][..], |(_, _, sizes)| *sizes);
        say(&format!(
            "{name}: {} files of {of}, cycles of calls of {sizes:?} files, allowed {allowed:?}",
            calls.files.len()
        ));
        for cycle in &cycles {
            let methods = |from, to| {
                let names = calls.methods.get(&(from, to)).into_iter().flatten();
                let names: Vec<_> = names.map(String::as_str).collect();
                format!(": {}", names.join(", "))
            };
            print(cycle, &calls.graph, edges, |at| sources.name(calls.files[at]), methods);
        }
        if sizes != allowed {
            others.push(of);
        }
    }
    // Types in the table that have no cycle any more.
    others.extend(listed.into_iter().map(str::to_owned));
    others.into_iter()
}

/// Prints the files of a cycle, and its edges with their causes.
fn print(
    cycle: &[usize],
    graph: &Graph,
    edges: bool,
    name: impl Fn(usize) -> String,
    cause: impl Fn(usize, usize) -> String,
) {
    let names: Vec<_> = cycle.iter().map(|&at| name(at)).collect();
    say(&format!("  {}", names.join(" ")));
    for &from in cycle.iter().filter(|_| edges) {
        for &to in graph[from].iter().filter(|to| cycle.contains(to)) {
            say(&format!("    {} -> {}{}", name(from), name(to), cause(from, to)));
        }
    }
}

/// Names and sources of the crates, and of this program.
fn crates() -> Outcome<Vec<(String, PathBuf)>> {
    let mut crates: Vec<(String, PathBuf)> = entries(&root().join("crates"))?
        .into_iter()
        .filter(|path| path.join("src").is_dir())
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path.join("src"))))
        .collect();
    crates.push(("xtask".to_owned(), root().join("xtask/src")));
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_that_are_not_in_the_tables_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("lib.rs", "mod a; mod b; struct T; impl T { fn x(&self) { self.y() } }");
        write("a.rs", "use crate::T; impl T { fn y(&self) { self.x() } }");
        write("b.rs", "pub(crate) struct Free;");
        let sources = Sources::read(folder.path()).unwrap();
        assert!(imports("unlisted", &sources, true));
        assert_eq!(calls("unlisted", &sources, true).collect::<Vec<_>>(), ["T"]);
        write("lib.rs", "mod a; mod b; struct T; fn f(_: &b::Free) { a::g() }");
        write("a.rs", "pub(crate) fn g() { crate::f(&crate::b::Free) }");
        let sources = Sources::read(folder.path()).unwrap();
        assert!(!imports("unlisted", &sources, false));
        assert_eq!(calls("unlisted", &sources, false).next(), None);
    }

    #[test]
    fn entries_for_cycles_that_are_gone_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("lib.rs"), "struct T;").unwrap();
        let sources = Sources::read(folder.path()).unwrap();
        assert!(!imports("wire", &sources, false));
        assert!(calls("proto", &sources, false).any(|of| of == "send::Sending"));
    }

    #[test]
    fn crates_include_this_program() {
        assert!(crates().unwrap().iter().any(|(name, _)| name == "xtask"));
    }
}
