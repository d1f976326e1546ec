//! Reads the modules of a crate and finds the paths in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Graph;
use crate::Outcome;

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
}

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
        let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let tokens = tokens(&text);
        let is_file =
            |child: &String| folder.join(format!("{child}.rs")).exists() || folder.join(child).join("mod.rs").exists();
        let children: BTreeSet<String> = children(&tokens).into_iter().filter(is_file).collect();
        let mut module = Module {
            path: path.clone(),
            ..Module::default()
        };
        module.collect(&tokens, &children);
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

    /// Which modules each one imports.
    pub(super) fn imports(&self) -> Graph {
        let index: BTreeMap<&[String], usize> = self.modules.iter().map(|m| m.path.as_slice()).zip(0..).collect();
        let targets = |(at, module): (usize, &Module)| {
            let found = module.paths.iter().filter_map(|path| self.resolve(&index, at, path, 0));
            let set: BTreeSet<usize> = found.filter(|&to| to != at).collect();
            set.into_iter().collect()
        };
        self.modules.iter().enumerate().map(targets).collect()
    }

    /// The module that defines what a path in the module `at` names.
    fn resolve(&self, index: &BTreeMap<&[String], usize>, at: usize, path: &[String], depth: u32) -> Option<usize> {
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

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
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

/// The code in names, `::` and single characters, without comments, literals and code for tests.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let characters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let next = rest.get(1).copied();
        match rest[0] {
            '/' if next == Some('/') => at += rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
            '"' => at += literal(rest),
            // A character, not a lifetime.
            '\'' if next == Some('\\') => at += 2 + rest[2..].iter().position(|&c| c == '\'').unwrap_or(0),
            '\'' if rest.get(2) == Some(&'\'') => at += 2,
            ':' if next == Some(':') => {
                tokens.push("::".to_owned());
                at += 1;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let end = rest.iter().position(|c| !c.is_alphanumeric() && *c != '_');
                let name: String = rest[..end.unwrap_or(rest.len())].iter().collect();
                at += name.chars().count() - 1;
                tokens.push(name);
            }
            c if c.is_whitespace() => {}
            c => tokens.push(c.to_string()),
        }
        at += 1;
    }
    without_tests(&tokens)
}

/// Where a string literal ends.
fn literal(rest: &[char]) -> usize {
    let mut escaped = false;
    for (at, &c) in rest.iter().enumerate().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    rest.len()
}

/// Removes items marked `#[cfg(test)]`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..]
            .iter()
            .zip(mark)
            .filter(|(token, mark)| token == mark)
            .count()
            < mark.len()
        {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // The item ends with a semicolon, or with the brace that closes its first one.
        let mut depth = 0;
        while at < tokens.len() {
            match tokens[at].as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            let over = depth == 0 && matches!(tokens[at].as_str(), ";" | "}");
            at += 1;
            if over {
                break;
            }
        }
    }
    kept
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
}
