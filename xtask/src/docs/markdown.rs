//! Markdown files: their links, their anchors, and whether the links lead somewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::chore::{Outcome, root};
use crate::files::read;
use crate::process;

/// The Markdown that forges and mdBook understand alike.
pub(crate) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_FOOTNOTES);

/// What a Markdown file links to, and what other files may link to in it.
#[derive(Default)]
pub(crate) struct Page {
    /// Destinations of links and pictures, each with its line.
    pub(crate) links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

impl Page {
    pub(crate) fn parse(text: &str) -> Self {
        let mut page = Page::default();
        let (mut heading, mut anchors) = (None::<String>, Anchors::default());
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let line = text[..range.start].matches('\n').count() + 1;
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    page.anchors.extend(heading.take().map(|words| anchors.of(&words)));
                }
                _ => {}
            }
        }
        page
    }
}

/// The anchors of the headings of a page, by the rule that forges and mdBook share.
#[derive(Default)]
pub(crate) struct Anchors {
    used: HashMap<String, u32>,
}

impl Anchors {
    /// Returns the anchor of the next heading.
    pub(crate) fn of(&mut self, heading: &str) -> String {
        let plain: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
                c if c.is_whitespace() => Some('-'),
                _ => None,
            })
            .collect();
        let times = self.used.entry(plain.clone()).or_insert(0);
        *times += 1;
        if *times == 1 {
            plain
        } else {
            format!("{plain}-{}", *times - 1)
        }
    }
}

/// A destination within the repository: the file or folder from the repository's root, and the anchor in it.
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    pub(crate) anchor: Option<String>,
}

/// Returns where a link in `file` leads; none if it leaves the repository or its form is not that of a relative link.
pub(crate) fn resolve(file: &Path, destination: &str) -> Option<Target> {
    if destination.contains("://") || destination.starts_with("mailto:") || destination.starts_with("data:") {
        return None;
    }
    let (path, anchor) = match destination.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (destination, None),
    };
    let path = if path.is_empty() {
        file.to_path_buf()
    } else {
        normalised(&file.parent()?.join(path))?
    };
    Some(Target { path, anchor })
}

/// Returns the path without `.` and `..`; none if it leads out of the folder that it starts in.
fn normalised(path: &Path) -> Option<PathBuf> {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::CurDir => {}
            Component::ParentDir => result.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(result)
}

/// Returns the paths of all Markdown files of the repository.
pub(crate) fn files() -> Outcome<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "*.md",
    ])
    .current_dir(root());
    let names = process::output(&mut git)?;
    let names = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(names.filter(|name| root().join(name).exists()).collect())
}

/// Checks every relative link and anchor of all Markdown files. Returns the number of files and of links.
pub(crate) fn check() -> Outcome<(usize, usize)> {
    let mut pages = BTreeMap::new();
    for file in files()? {
        let page = Page::parse(&read(&root().join(&file))?);
        pages.insert(file, page);
    }
    let (mut count, mut problems) = (0, Vec::new());
    for (file, page) in &pages {
        for (line, destination) in &page.links {
            let is_relative = resolve(file, destination).is_some() || destination.starts_with('.');
            count += usize::from(is_relative);
            if let Some(problem) = problem(&pages, file, destination) {
                problems.push(format!("{}:{line}: {destination}: {problem}", file.display()));
            }
        }
    }
    if problems.is_empty() {
        Ok((pages.len(), count))
    } else {
        Err(format!("links that lead nowhere:\n  {}", problems.join("\n  ")))
    }
}

/// Lists the pages of the book.
pub(crate) const CONTENTS: &str = "docs/SUMMARY.md";

fn problem(pages: &BTreeMap<PathBuf, Page>, file: &Path, destination: &str) -> Option<String> {
    let Some(target) = resolve(file, destination) else {
        return destination
            .starts_with('.')
            .then(|| "leads out of the repository".to_owned());
    };
    if !root().join(&target.path).exists() {
        return Some(format!("{} does not exist", target.path.display()));
    }
    // mdBook makes no page of its table of contents.
    if target.path == Path::new(CONTENTS) {
        return Some("the book has no page for it; link to a page that lists the same".to_owned());
    }
    let (anchor, page) = (target.anchor?, pages.get(&target.path)?);
    (!page.anchors.contains(&anchor)).then(|| format!("{} has no heading with this anchor", target.path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_and_anchors_outside_of_code() {
        let page = Page::parse(
            "# One `two`, three\n\n[a](b.md#c)\n\n```\n[no](no.md)\n```\n\n![p](../q.svg)\n\n## One\n\n## One\n",
        );
        assert_eq!(page.links, [(3, "b.md#c".to_owned()), (9, "../q.svg".to_owned())]);
        assert_eq!(
            page.anchors.into_iter().collect::<Vec<_>>(),
            ["one", "one-1", "one-two-three"]
        );
    }

    #[test]
    fn a_link_to_what_the_book_lacks_is_a_problem() {
        let problem = |destination| problem(&BTreeMap::new(), Path::new("CHANGELOG.md"), destination);
        assert!(problem("docs/SUMMARY.md").is_some());
        assert!(problem("docs/studies.md").is_none());
        assert!(problem("docs/none.md").is_some());
    }

    #[test]
    fn resolves_relative_links_within_the_repository_only() {
        let path = |destination| resolve(Path::new("docs/a/b.md"), destination).map(|target| target.path);
        assert_eq!(path("../../x/y.toml"), Some("x/y.toml".into()));
        assert_eq!(path("#here"), Some("docs/a/b.md".into()));
        assert_eq!(path("../../../x"), None);
        assert_eq!(path("https://example.org/x"), None);
    }
}
