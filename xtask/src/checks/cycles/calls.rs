//! Calls between the files that implement one type.
//!
//! A method calls another one with `self.name(...)`, `Self::name` or `Type::name`. The name is looked up among the methods of the type: first in its own
//! blocks, then in those of traits. A name that several of these define is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::components::Graph;
use super::tokens::is_name;

/// An `impl` block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// The path of the type, as written.
    pub(super) of: Vec<String>,
    /// Whether it implements a trait.
    of_trait: bool,
    methods: BTreeSet<String>,
    /// Names behind `self.` with arguments, behind `Self::`, and behind the name of the type.
    calls: BTreeSet<String>,
}

/// The calls between the files of a type.
pub(super) struct Calls {
    /// The files that implement the type.
    pub(super) files: Vec<usize>,
    /// The files that each one calls, by their places in `files`.
    pub(super) graph: Graph,
    /// The methods called, by the places of the caller and of the method.
    pub(super) methods: BTreeMap<(usize, usize), BTreeSet<String>>,
}

impl Calls {
    /// Finds the calls between the blocks of a type, each with its file.
    pub(super) fn of(blocks: &[(usize, &Block)]) -> Self {
        let files: BTreeSet<usize> = blocks.iter().map(|(file, _)| *file).collect();
        let files: Vec<usize> = files.into_iter().collect();
        let place = |file: &usize| files.binary_search(file).unwrap_or_default();
        let homes = |of_trait: bool| {
            let mut homes: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
            for (file, block) in blocks.iter().filter(|(_, block)| block.of_trait == of_trait) {
                for method in &block.methods {
                    homes.entry(method).or_default().insert(place(file));
                }
            }
            homes
        };
        let (own, of_traits) = (homes(false), homes(true));
        let mut methods: BTreeMap<(usize, usize), BTreeSet<String>> = BTreeMap::new();
        for (file, block) in blocks {
            for call in &block.calls {
                let homes = own.get(call.as_str()).or_else(|| of_traits.get(call.as_str()));
                if let Some(&home) = homes.filter(|homes| homes.len() == 1).and_then(BTreeSet::first)
                    && home != place(file)
                {
                    methods.entry((place(file), home)).or_default().insert(call.clone());
                }
            }
        }
        let mut graph = vec![Vec::new(); files.len()];
        for (from, to) in methods.keys() {
            graph[*from].push(*to);
        }
        Calls { files, graph, methods }
    }
}

/// Returns the `impl` blocks in the tokens of a file.
pub(super) fn blocks(tokens: &[String]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        // In other places, such as `fn f() -> impl Trait`, it starts a type.
        let starts_item = at == 0 || matches!(tokens[at - 1].as_str(), ";" | "}" | "{" | "]" | "unsafe");
        if tokens[at] != "impl" || !starts_item {
            at += 1;
            continue;
        }
        let open = (at..tokens.len()).find(|&i| tokens[i] == "{").unwrap_or(tokens.len());
        let end = close(tokens, open);
        let (of, of_trait) = header(&tokens[at + 1..open]);
        let mut block = Block {
            of,
            of_trait,
            ..Block::default()
        };
        block.collect(&tokens[(open + 1).min(end)..end]);
        blocks.push(block);
        at = end;
    }
    blocks
}

/// Returns the place of the brace that closes the one at `open`.
fn close(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// Returns the path of the type, and whether a trait is implemented, from the tokens between `impl` and the block.
fn header(tokens: &[String]) -> (Vec<String>, bool) {
    let mut outer = Vec::new();
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "<" => depth += 1,
            ">" if at > 0 && tokens[at - 1] == "-" => {}
            ">" => depth -= 1,
            "where" if depth == 0 => break,
            token if depth == 0 => outer.push(token),
            _ => {}
        }
    }
    let implements = outer.iter().position(|token| *token == "for");
    let of = implements.map_or(&outer[..], |at| &outer[at + 1..]);
    let is_lifetime = |at: usize| at > 0 && of[at - 1] == "'";
    let is_part =
        |(at, token): &(usize, &&str)| is_name(token) && !matches!(**token, "dyn" | "mut") && !is_lifetime(*at);
    let path = of.iter().enumerate().filter(is_part);
    (path.map(|(_, name)| (*name).to_owned()).collect(), implements.is_some())
}

impl Block {
    fn collect(&mut self, body: &[String]) {
        for (at, token) in body.iter().enumerate() {
            let after = |n: usize| body.get(at + n).map(String::as_str);
            match (token.as_str(), after(1), after(2)) {
                ("fn", Some(name), _) => _ = self.methods.insert(name.to_owned()),
                // A field is followed by no parenthesis; `::` starts generic arguments.
                ("self", Some("."), Some(name)) if matches!(after(3), Some("(" | "::")) => {
                    self.calls.insert(name.to_owned());
                }
                ("Self", Some("::"), Some(name)) => _ = self.calls.insert(name.to_owned()),
                (of, Some("::"), Some(name)) if self.of.last().is_some_and(|last| last == of) => {
                    self.calls.insert(name.to_owned());
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn only(text: &str) -> Block {
        let mut blocks = blocks(&tokens(text));
        assert_eq!(blocks.len(), 1, "{blocks:?}");
        blocks.remove(0)
    }

    #[test]
    fn header_names_the_type_without_generics_and_trait() {
        let of = |text: &str| {
            let block = only(&format!("fn before() -> impl Into<u8> {{ 1 }} {text} {{}}"));
            (block.of.join("::"), block.of_trait)
        };
        assert_eq!(of("impl super::Association"), ("super::Association".to_owned(), false));
        assert_eq!(
            of("impl<'a, F: Fn(u8) -> u8> Ring<'a, F> where F: Send"),
            ("Ring".to_owned(), false)
        );
        assert_eq!(
            of("impl<T> From<Vec<T>> for crate::a::Ring<T>"),
            ("crate::a::Ring".to_owned(), true)
        );
        assert_eq!(
            of("unsafe impl<F> Send for &'a mut Ring where F: for<'a> Fn(&'a u8)"),
            ("Ring".to_owned(), true)
        );
    }

    #[test]
    fn calls_are_methods_of_self_only() {
        let block = only(
            "impl A {
                fn one(&mut self) -> u8 { if self.two() { self.part.three(); Self::four(self) } else { A::zero(self) } }
                // self.comment();
                fn five(&self, other: &A) -> u8 { other.six(); self\n.seven::<u8>(\"self.text()\") + self.eight }
                #[cfg(test)]
                fn nine(&self) { self.ten() }
            }",
        );
        assert_eq!(block.calls.iter().collect::<Vec<_>>(), ["four", "seven", "two", "zero"]);
        assert_eq!(block.methods.iter().collect::<Vec<_>>(), ["five", "one"]);
    }

    #[test]
    fn names_lead_to_the_only_file_that_defines_them() {
        let files = [
            "impl A { fn a(&self) { self.b(); self.own(); self.twice(); self.fmt() } fn own(&self) {} }",
            "impl A { fn b(&self) { self.a(); self.shown() } } impl Shown for A { fn shown(&self) {} fn twice(&self) {} }",
            "impl Other for A { fn twice(&self) {} fn shown(&self) {} fn fmt(&self) { self.b() } } impl A { fn shown(&self) {} }",
        ];
        let found: Vec<_> = files.iter().map(|text| blocks(&tokens(text))).collect();
        let placed: Vec<_> = found
            .iter()
            .zip([4, 7, 9])
            .flat_map(|(blocks, file)| blocks.iter().map(move |block| (file, block)))
            .collect();
        let calls = Calls::of(&placed);
        assert_eq!(calls.files, [4, 7, 9]);
        // `shown` is the type's own in the last file; two traits define `twice`.
        assert_eq!(calls.graph, [vec![1, 2], vec![0, 2], vec![1]]);
        assert_eq!(calls.methods[&(0, 1)].iter().collect::<Vec<_>>(), ["b"]);
        assert_eq!(calls.methods[&(1, 2)].iter().collect::<Vec<_>>(), ["shown"]);
    }
}
