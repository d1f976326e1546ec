//! Reads the modules of a crate and finds the paths in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::calls::{self, Block};
use super::components::Graph;
use super::tokens::{is_name, tokens};
use crate::chore::Outcome;
use crate::files::read;

/// The modules of one crate.
pub(super) struct Sources {
    modules: Vec<Module>,
}

#[derive(Default)]
struct Module {
    /// Names from the crate's root to it; empty for the root.
    path: Vec<String>,
    /// Paths in its code, as written.
    paths: BTreeSet<Vec<String>>,
    /// What it re-exports: the name, and the path as written.
    exports: BTreeMap<String, Vec<String>>,
    /// What it imports or re-exports by name, and the path as written.
    names: BTreeMap<String, Vec<String>>,
    /// Types and traits that it defines.
    types: BTreeSet<String>,
    /// Its `impl` blocks.
    blocks: Vec<Block>,
}

/// A type by the module that defines it, and its name.
type Type = (usize, String);

type Index<'s> = BTreeMap<&'s [String], usize>;

impl Sources {
    /// Reads a crate from the folder of its root.
    pub(super) fn read(folder: &Path) -> Outcome<Self> {
        let root = ["lib.rs", "main.rs"]
            .iter()
            .map(|name| folder.join(name))
            .find(|file| file.exists())
            .ok_or_else(|| format!("{} has neither lib.rs nor main.rs", folder.display()))?;
        let mut sources = Sources { modules: Vec::new() };
        sources.load(&root, folder, Vec::new())?;
        Ok(sources)
    }

    fn load(&mut self, file: &Path, folder: &Path, path: Vec<String>) -> Outcome {
        let tokens = tokens(&read(file)?);
        let is_file =
            |child: &String| folder.join(format!("{child}.rs")).exists() || folder.join(child).join("mod.rs").exists();
        let children: BTreeSet<String> = children(&tokens).into_iter().filter(is_file).collect();
        let mut module = Module {
            path: path.clone(),
            ..Module::default()
        };
        module.collect(&tokens, &children);
        module.blocks = calls::blocks(&tokens);
        self.modules.push(module);
        for child in children {
            let mut path = path.clone();
            path.push(child.clone());
            let (flat, nested) = (folder.join(format!("{child}.rs")), folder.join(&child));
            let file = if flat.exists() { flat } else { nested.join("mod.rs") };
            self.load(&file, &nested, path)?;
        }
        Ok(())
    }

    /// A module as it is written in code.
    pub(super) fn name(&self, at: usize) -> String {
        let path = self.modules[at].path.join("::");
        if path.is_empty() { "crate".to_owned() } else { path }
    }

    /// A type as it is written in code.
    pub(super) fn type_name(&self, (at, name): &Type) -> String {
        match self.modules[*at].path.join("::") {
            path if path.is_empty() => name.clone(),
            path => format!("{path}::{name}"),
        }
    }

    fn index(&self) -> Index<'_> {
        self.modules.iter().map(|m| m.path.as_slice()).zip(0..).collect()
    }

    /// The `impl` blocks of each type of the crate, with their modules.
    pub(super) fn blocks(&self) -> BTreeMap<Type, Vec<(usize, &Block)>> {
        let index = self.index();
        let mut types: BTreeMap<Type, Vec<(usize, &Block)>> = BTreeMap::new();
        for (at, module) in self.modules.iter().enumerate() {
            for block in &module.blocks {
                if let Some(of) = self.type_at(&index, at, &block.of, 0) {
                    types.entry(of).or_default().push((at, block));
                }
            }
        }
        types
    }

    /// The type that a path in the module `at` names, if the crate defines it.
    fn type_at(&self, index: &Index<'_>, at: usize, path: &[String], depth: u32) -> Option<Type> {
        let (name, parents) = path.split_last().filter(|_| depth < 8)?;
        let module = &self.modules[at];
        let first = parents.first().unwrap_or(name);
        if parents.is_empty() && module.types.contains(name) {
            return Some((at, name.clone()));
        }
        if let Some(target) = module.names.get(first) {
            return self.type_at(index, at, &[target, &path[1..]].concat(), depth + 1);
        }
        if parents.is_empty() {
            let globs = module.paths.iter().filter_map(|path| path.split_last());
            let mut globs = globs.filter(|(last, _)| *last == "*");
            return globs.find_map(|(_, path)| {
                self.type_at(index, at, &[path, std::slice::from_ref(name)].concat(), depth + 1)
            });
        }
        let home = self.resolve(index, at, parents, 0)?;
        self.type_at(index, home, std::slice::from_ref(name), depth + 1)
    }

    /// Which modules each one imports.
    pub(super) fn imports(&self) -> Graph {
        let index = self.index();
        let targets = |(at, module): (usize, &Module)| {
            let found = module.paths.iter().filter_map(|path| self.resolve(&index, at, path, 0));
            let set: BTreeSet<usize> = found.filter(|&to| to != at).collect();
            set.into_iter().collect()
        };
        self.modules.iter().enumerate().map(targets).collect()
    }

    /// The module that defines what a path in the module `at` names.
    fn resolve(&self, index: &Index<'_>, at: usize, path: &[String], depth: u32) -> Option<usize> {
        let mut place = self.modules[at].path.clone();
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => place.clear(),
                "self" => {}
                "super" => _ = place.pop()?,
                _ => break,
            }
            rest = others;
        }
        let mut here = *index.get(place.as_slice())?;
        while let Some((name, others)) = rest.split_first() {
            place.push(name.clone());
            if let Some(&child) = index.get(place.as_slice()) {
                (here, rest) = (child, others);
                continue;
            }
            let export = self.modules[here].exports.get(name).filter(|_| depth < 8);
            return match export {
                // What another crate defines is taken for the re-exporting module's own.
                Some(target) => self
                    .resolve(index, here, &[target, others].concat(), depth + 1)
                    .or(Some(here)),
                None => Some(here),
            };
        }
        Some(here)
    }
}

impl Module {
    fn collect(&mut self, tokens: &[String], children: &BTreeSet<String>) {
        let starts = |token: &str| matches!(token, "crate" | "super" | "self") || children.contains(token);
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "use" {
                let public = tokens[..at].last().is_some_and(|last| last == "pub")
                    || tokens[..at].last().is_some_and(|last| last == ")") && in_visibility(&tokens[..at]);
                let end = (at..tokens.len()).find(|&i| tokens[i] == ";").unwrap_or(tokens.len());
                let mut trees = Vec::new();
                use_tree(&tokens[at + 1..end], &mut Vec::new(), &mut trees);
                for (name, path) in trees.into_iter().filter(|(_, path)| starts(&path[0])) {
                    self.names.insert(name.clone(), path.clone());
                    if public && name != "*" {
                        self.exports.insert(name, path);
                    } else {
                        self.paths.insert(path);
                    }
                }
                at = end;
            } else if starts(&tokens[at])
                && tokens.get(at + 1).is_some_and(|next| next == "::")
                && !follows_path(tokens, at)
                && !is_scope(&tokens[..at])
            {
                let mut path = vec![tokens[at].clone()];
                while tokens.get(at + 1).is_some_and(|next| next == "::")
                    && tokens.get(at + 2).is_some_and(|next| is_name(next))
                {
                    path.push(tokens[at + 2].clone());
                    at += 2;
                }
                self.paths.insert(path);
            } else if matches!(tokens[at].as_str(), "struct" | "enum" | "union" | "trait") {
                self.types.extend(tokens.get(at + 1).cloned());
            }
            at += 1;
        }
    }
}

/// Whether the token is not the first one of its path.
fn follows_path(tokens: &[String], at: usize) -> bool {
    at > 0 && tokens[at - 1] == "::"
}

/// Whether these tokens end with `pub(...)`.
fn in_visibility(before: &[String]) -> bool {
    let open = before.iter().rposition(|token| token == "(");
    open.is_some_and(|open| open > 0 && before[open - 1] == "pub")
}

/// Whether these tokens end with `pub(in`: what follows says who sees the item, and imports nothing.
fn is_scope(before: &[String]) -> bool {
    before.ends_with(&["pub", "(", "in"].map(str::to_owned))
}

/// Every name that a `use` brings, with its path.
fn use_tree(tokens: &[String], prefix: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let before = prefix.len();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "::" => {}
            "{" => {
                let (mut depth, mut start) = (0, at + 1);
                for i in at..tokens.len() {
                    match tokens[i].as_str() {
                        "{" => depth += 1,
                        "}" => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 || depth == 1 && tokens[i] == "," {
                        use_tree(&tokens[start..i], &mut prefix.clone(), found);
                        start = i + 1;
                    }
                    if depth == 0 {
                        break;
                    }
                }
                prefix.truncate(before);
                return;
            }
            "as" => {
                let name = tokens.get(at + 1).cloned().unwrap_or_default();
                found.push((name, prefix.clone()));
                prefix.truncate(before);
                return;
            }
            name => prefix.push(name.to_owned()),
        }
        at += 1;
    }
    if prefix.len() > before || before > 0 && !tokens.is_empty() {
        let mut path = prefix.clone();
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        found.push((path.last().cloned().unwrap_or_default(), path));
    }
    prefix.truncate(before);
}

/// Modules that may be declared here: by `mod`, or by a line of a registry of parts, `Variant(module::Parameters) =`.
fn children(tokens: &[String]) -> BTreeSet<String> {
    let declared = tokens.windows(3).filter(|three| three[0] == "mod" && three[2] == ";");
    let registered = tokens
        .windows(6)
        .filter(|six| six[0] == "(" && six[2] == "::" && six[4] == ")" && six[5] == "=");
    declared.chain(registered).map(|found| found[1].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Module {
        let tokens = tokens(text);
        let children = children(&tokens);
        let mut module = Module::default();
        module.collect(&tokens, &children);
        module
    }

    fn paths(text: &str) -> Vec<String> {
        module(text).paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_of_imports_and_code_are_found_without_tests_comments_and_literals() {
        let text = "
            mod part;
            registry! { A(registered::Parameters) = \"a\"; }
            use crate::{Span, time::{self, Rate as R}};
            use std::fmt; // use crate::comment::Nothing;
            const TEXT: &str = \"use crate::literal::Nothing;\";
            fn f<'a>(x: &'a super::Other) -> char { part::build(); std::part::no(); '\"' }
            #[cfg(test)]
            mod tests { use crate::only::Tests; fn g() { crate::more::tests(); } }
            pub(in super::super) fn h() { for _ in crate::after::call() {} }
        ";
        let expected = [
            "crate::Span",
            "crate::after::call",
            "crate::time",
            "crate::time::Rate",
            "part::build",
            "registered::Parameters",
            "super::Other",
        ];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_item() {
        let modules = vec![
            Module {
                exports: module("mod a; mod b; pub use a::Thing; pub(crate) use b::Other;").exports,
                ..Module::default()
            },
            Module {
                path: vec!["a".to_owned()],
                paths: module("use crate::Other;").paths,
                ..Module::default()
            },
            Module {
                path: vec!["b".to_owned()],
                paths: module("use super::Thing;").paths,
                ..Module::default()
            },
        ];
        assert_eq!(Sources { modules }.imports(), [vec![], vec![2], vec![1]]);
    }

    #[test]
    fn blocks_belong_to_the_type_that_their_path_leads_to() {
        let texts = [
            ("", "mod a; mod b; mod c; mod d; pub use a::Part; struct Root;"),
            ("a", "pub struct Part; impl Part {} impl Default for Part {}"),
            ("b", "use super::Part; impl Part {}"),
            (
                "c",
                "struct Part; impl Part {} impl super::Part {} impl crate::a::Part {} impl From<Part> for String {}",
            ),
            (
                "d",
                "use crate::a; use super::*; use crate::a::Part as Renamed; impl a::Part {} impl Renamed {} impl Root {}",
            ),
        ];
        let modules = texts.map(|(path, text)| {
            let mut module = module(text);
            module.path = path.split_terminator("::").map(str::to_owned).collect();
            module.blocks = calls::blocks(&tokens(text));
            module
        });
        let sources = Sources {
            modules: modules.into(),
        };
        let found: Vec<_> = sources
            .blocks()
            .into_iter()
            .map(|(of, blocks)| {
                let files: Vec<_> = blocks.iter().map(|(at, _)| sources.name(*at)).collect();
                (sources.type_name(&of), files.join(" "))
            })
            .collect();
        let expected = [("Root", "d"), ("a::Part", "a a b c c d d"), ("c::Part", "c")];
        assert_eq!(found, expected.map(|(of, files)| (of.to_owned(), files.to_owned())));
    }
}
