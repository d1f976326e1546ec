//! The marks of requirements in code and tests, `[9260:5.2.1-3]` in comments: the number of the RFC, the section, and the position there.

use std::collections::BTreeMap;

use crate::chore::{Outcome, root};
use crate::files::{below, has_extension, read, shown};

/// Drafts with a list of requirements. Their marks have this name in place of a number, such as `[dtls:5.2-1]`.
pub(super) const DRAFTS: [&str; 1] = ["dtls"];

/// The folder whose Rust files may have marks.
const SOURCES: &str = "crates";

/// Places of a requirement: a file and, in back quotes, a function.
#[derive(Default)]
pub(super) struct Places {
    pub(super) code: Vec<String>,
    pub(super) tests: Vec<String>,
}

/// All marks in the sources, by the full id of the requirement (`9260:5.2.1-3`).
pub(crate) struct Marks(pub(super) BTreeMap<String, Places>);

impl Marks {
    /// Reads the marks in all source files.
    pub(crate) fn read() -> Outcome<Self> {
        let mut places = BTreeMap::new();
        let files = below(&root().join(SOURCES))?;
        for file in files.iter().filter(|file| has_extension(file, "rs")) {
            let name = shown(file);
            scan(&name, &read(file)?, &mut places);
        }
        Ok(Marks(places))
    }

    /// Returns the tests with this mark (`9260:5.2.1-3`), each as its file and, in back quotes, its function.
    pub(crate) fn tests_of(&self, id: &str) -> impl Iterator<Item = &str> {
        self.0
            .get(id)
            .into_iter()
            .flat_map(|places| &places.tests)
            .map(String::as_str)
    }
}

/// Finds the marks in a file. The place of a mark is the function, type or constant that contains it or follows it.
fn scan(file: &str, source: &str, places: &mut BTreeMap<String, Places>) {
    let mut in_tests = file.contains("/tests/") || file.ends_with("/tests.rs");
    let mut item = String::new();
    let mut waiting: Vec<String> = Vec::new();
    let mut note = |id: String, item: &str, in_tests: bool| {
        let place = if item.is_empty() {
            file.to_owned()
        } else {
            format!("{file} `{item}`")
        };
        let found = places.entry(id).or_default();
        let list = if in_tests { &mut found.tests } else { &mut found.code };
        if !list.contains(&place) {
            list.push(place);
        }
    };
    for line in source.lines() {
        let text = line.trim_start();
        in_tests |= text.starts_with("mod tests") || text.starts_with("pub(super) mod tests");
        // A comment belongs to the item after it, or else to the item that contains it.
        if text.starts_with("//") {
            waiting.extend(marks(line));
            continue;
        }
        if text.starts_with("#[") {
            continue;
        }
        if let Some(name) = item_name(line) {
            item = name;
        }
        for id in waiting.drain(..).chain(marks(line)) {
            note(id, &item, in_tests);
        }
    }
    for id in waiting {
        note(id, "", in_tests);
    }
}

/// Returns the full ids of the marks in a line; one mark may have several requirements of an RFC: `[9260:6.1-2, 6.1-3]`.
fn marks(line: &str) -> impl Iterator<Item = String> {
    line.match_indices('[')
        .filter_map(|(at, _)| {
            let (rfc, rest) = line[at + 1..].split_once(':')?;
            let is_number = rfc.len() == 4 && rfc.bytes().all(|byte| byte.is_ascii_digit());
            let ids = &rest[..rest.find(']')?];
            // An IPv6 address in brackets has more colons.
            ((is_number || DRAFTS.contains(&rfc)) && !ids.contains(':')).then_some((rfc, ids))
        })
        .flat_map(|(rfc, ids)| ids.split(',').map(move |id| format!("{rfc}:{}", id.trim())))
}

/// Returns the name of the function, type or constant whose definition starts in a line.
fn item_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub") || matches!(*word, "async" | "const" | "unsafe") || word.ends_with(')')
    });
    let keyword = words.next()?;
    let constant = line.contains("const ") && keyword.ends_with(':');
    let name = match keyword {
        "fn" | "struct" | "enum" | "trait" => words.next()?,
        name if constant => name,
        _ => return None,
    };
    let end = name
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(name.len());
    (end > 0).then(|| name[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
/// Answers an INIT.
// [9260:5.1-2]
#[inline]
pub(crate) fn on_init() {
    // RFC 9260 §5.1.3 [9260:5.1.3-1, 5.1.3-2]
    go();
    stop(); // [3758:3.5-1]
    listen(\"[2001:db8::1]:5000\");
}
pub const LIMIT: u32 = 1; // [9260:16-1]
#[cfg(test)]
mod tests {
    #[test]
    fn init_is_answered() {
        // [9260:5.1-2]
    }
}
";

    #[test]
    fn assigns_a_mark_to_its_item_and_to_code_or_tests() {
        let mut places = BTreeMap::new();
        scan("crates/x/src/a.rs", SOURCE, &mut places);
        assert_eq!(places["9260:5.1-2"].code, ["crates/x/src/a.rs `on_init`"]);
        assert_eq!(places["9260:5.1-2"].tests, ["crates/x/src/a.rs `init_is_answered`"]);
        assert_eq!(places["9260:5.1.3-2"].code, ["crates/x/src/a.rs `on_init`"]);
        assert_eq!(places["9260:16-1"].code, ["crates/x/src/a.rs `LIMIT`"]);
        assert_eq!(places["3758:3.5-1"].code, ["crates/x/src/a.rs `on_init`"]);
        assert_eq!(places.len(), 5, "an address is no mark");
    }
}
