//! `cargo xtask cycles`: lists import cycles between the modules of a crate.
//!
//! A module is a file. It imports another one if a path in it (`use crate::...`, `super::name`, `child::name`) leads to an item that the
//! other one defines. Re-exports are followed to the file that defines the item, and are no imports themselves. Code for tests does not
//! count. The scan reads text, not syntax trees: it knows no names that macros build.

mod scan;

use std::collections::BTreeMap;

use crate::{Outcome, root, say};
use scan::Sources;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this crate, by the name of its folder in crates/
    only: Option<String>,
    /// Print every import between two files of a cycle
    #[arg(long)]
    edges: bool,
}

/// Files that may be in cycles, for crates that have some. The numbers only fall.
const ALLOWED: &[(&str, usize)] = &[
    ("emu", 2),
    ("lab", 6),
    // A scenario makes runs, and runs know their scenario.
    ("python", 2),
    ("scenario", 5),
    ("sim", 18),
    // A transport is bound with the configuration that names it; a clock makes the timers that read it.
    ("whimbrel", 5),
    ("wire", 9),
];

/// Imports of each module, by their indices.
type Graph = Vec<Vec<usize>>;

pub(crate) fn run(args: &Args) -> Outcome {
    let mut exceeded = Vec::new();
    for name in crates()? {
        if args.only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let sources = Sources::read(&root().join("crates").join(&name).join("src"))?;
        let graph = sources.imports();
        let cycles = cycles(&graph);
        let files = cycles.iter().map(Vec::len).sum::<usize>();
        let allowed = ALLOWED.iter().find(|(known, _)| *known == name).map_or(0, |(_, n)| *n);
        say(&format!(
            "{name}: {} modules, {} cycles of {files} files, {allowed} allowed",
            graph.len(),
            cycles.len()
        ));
        for cycle in &cycles {
            let names: Vec<_> = cycle.iter().map(|&at| sources.name(at)).collect();
            say(&format!("  {}", names.join(" ")));
            for &from in cycle.iter().filter(|_| args.edges) {
                for &to in graph[from].iter().filter(|to| cycle.contains(to)) {
                    say(&format!("    {} -> {}", sources.name(from), sources.name(to)));
                }
            }
        }
        if files > allowed {
            exceeded.push(name);
        }
    }
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more files than allowed import each other in {}",
        exceeded.join(", ")
    ))
}

/// Names of the crates' folders.
fn crates() -> Outcome<Vec<String>> {
    let folder = root().join("crates");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("cannot list {}: {e}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("src").is_dir())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Sets of modules of which each one can be reached from each other one: Tarjan's strongly connected components.
fn cycles(graph: &Graph) -> Vec<Vec<usize>> {
    let mut search = Search {
        graph,
        order: BTreeMap::new(),
        lowest: vec![0; graph.len()],
        stack: Vec::new(),
        found: Vec::new(),
    };
    for module in 0..graph.len() {
        if !search.order.contains_key(&module) {
            search.visit(module);
        }
    }
    search.found.sort();
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    order: BTreeMap<usize, usize>,
    lowest: Vec<usize>,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, module: usize) {
        let order = self.order.len();
        self.order.insert(module, order);
        self.lowest[module] = order;
        self.stack.push(module);
        for &next in &self.graph[module] {
            match self.order.get(&next) {
                None => {
                    self.visit(next);
                    self.lowest[module] = self.lowest[module].min(self.lowest[next]);
                }
                Some(&seen) if self.stack.contains(&next) => {
                    self.lowest[module] = self.lowest[module].min(seen);
                }
                Some(_) => {}
            }
        }
        if self.lowest[module] == order {
            let at = self.stack.iter().position(|&on| on == module).unwrap_or_default();
            let mut component = self.stack.split_off(at);
            component.sort_unstable();
            if component.len() > 1 {
                self.found.push(component);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_modules_that_reach_each_other_are_a_cycle() {
        // 0 -> 1 -> 2 -> 0, 2 -> 3, 4 -> 3, 5 <-> 6
        let graph = vec![vec![1], vec![2], vec![0, 3], vec![], vec![3], vec![6], vec![5]];
        assert_eq!(cycles(&graph), [vec![0, 1, 2], vec![5, 6]]);
        assert!(cycles(&vec![vec![1], vec![2], vec![]]).is_empty());
    }
}
