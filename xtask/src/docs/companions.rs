//! Files outside of `docs/` that the book links to, such as examples and studies.
//!
//! mdBook knows `docs/` only, so that these links would leave the book. They are copied into its folder `repository`, Markdown as HTML,
//! and the links of the built pages are changed to lead there. The Markdown files keep relative links, which work on a forge.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CowStr, Event, Parser, Tag, TagEnd, html};

use super::markdown::{Anchors, OPTIONS, resolve};
use crate::chore::{Outcome, root};
use crate::files::{below, entries, has_extension, read, read_bytes, write};

/// The folder within the book.
const FOLDER: &str = "repository";

/// The files that have to be copied.
#[derive(Default)]
struct Wanted {
    seen: BTreeSet<PathBuf>,
    queue: VecDeque<PathBuf>,
}

impl Wanted {
    fn add(&mut self, path: PathBuf) {
        if self.seen.insert(path.clone()) {
            self.queue.push_back(path);
        }
    }
}

/// Copies what the built pages link to outside of `docs/`, and changes their links. Returns the number of files.
pub(crate) fn add(book: &Path) -> Outcome<usize> {
    let mut wanted = Wanted::default();
    for page in html_files(book)? {
        let inner = page.strip_prefix(book).unwrap_or(&page);
        let text = read(&page)?;
        let changed = with_links(&text, |destination| outward(&mut wanted, inner, destination))?;
        if changed != text {
            write(&page, changed)?;
        }
    }
    while let Some(path) = wanted.queue.pop_front() {
        let from = root().join(&path);
        let to = book.join(FOLDER).join(html_name(&path));
        if from.is_dir() {
            write(&to, listing(&path)?)?;
        } else if has_extension(&path, "md") {
            write(&to, rendered(&mut wanted, &path, &read(&from)?)?)?;
        } else {
            let bytes = read_bytes(&from)?;
            write(&to, &bytes)?;
        }
    }
    dead_links(book)?;
    Ok(wanted.seen.len())
}

/// Returns the destination of a link of a built page if it leads out of `docs/`, and notes the file. mdBook has changed `.md` to `.html`.
fn outward(wanted: &mut Wanted, page: &Path, destination: &str) -> Outcome<Option<String>> {
    let Some(target) = resolve(&Path::new("docs").join(page), destination) else {
        return Ok(None);
    };
    if target.path.starts_with("docs") {
        let is_folder = root().join(readme(&target.path)).is_file() && root().join(&target.path).is_dir();
        return Ok(is_folder.then(|| format!("{}/README.html", destination.trim_end_matches('/'))));
    }
    let markdown = target.path.with_extension("md");
    let path = if root().join(&target.path).exists() {
        target.path
    } else if root().join(&markdown).exists() {
        markdown
    } else {
        return Err(format!("{}: {destination} does not exist", page.display()));
    };
    Ok(Some(companion(wanted, page, path, target.anchor)))
}

/// Notes a file and returns the link to it from a file of the book.
fn companion(wanted: &mut Wanted, from: &Path, path: PathBuf, anchor: Option<String>) -> String {
    let path = readme(&path);
    let link = format!("{}{FOLDER}/{}", up(from), html_name(&path).display());
    wanted.add(path);
    link + &anchor.map_or(String::new(), |anchor| format!("#{anchor}"))
}

/// Returns the `README.md` of a folder that has one, otherwise the path as it is.
fn readme(path: &Path) -> PathBuf {
    let readme = path.join("README.md");
    if root().join(&readme).exists() {
        readme
    } else {
        path.to_path_buf()
    }
}

/// Returns the path from a file of the book to the book's folder.
fn up(file: &Path) -> String {
    "../".repeat(file.components().count().saturating_sub(1))
}

/// Returns the name in the book: Markdown becomes HTML, and a folder a page that lists it.
fn html_name(path: &Path) -> PathBuf {
    if root().join(path).is_dir() {
        path.join("index.html")
    } else if has_extension(path, "md") {
        path.with_extension("html")
    } else {
        path.to_path_buf()
    }
}

/// Returns a Markdown file as a page in the book's style.
fn rendered(wanted: &mut Wanted, path: &Path, text: &str) -> Outcome<String> {
    let place = Path::new(FOLDER).join(html_name(path));
    let mut events: Vec<Event> = Parser::new_ext(text, OPTIONS).collect();
    let (mut anchors, mut heading) = (Anchors::default(), None::<(usize, String)>);
    for index in 0..events.len() {
        match &mut events[index] {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let Some(target) = resolve(path, dest_url).filter(|_| !dest_url.starts_with('#')) else {
                    continue;
                };
                let link = match target.path.strip_prefix("docs") {
                    Ok(_) => {
                        let page = html_name(&readme(&target.path));
                        let page = page.strip_prefix("docs").unwrap_or(&page);
                        let anchor = target.anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
                        format!("{}{}{anchor}", up(&place), page.display())
                    }
                    Err(_) => companion(wanted, &place, target.path, target.anchor),
                };
                *dest_url = CowStr::from(link);
            }
            Event::Start(Tag::Heading { .. }) => heading = Some((index, String::new())),
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, heading)) = &mut heading {
                    heading.push_str(words);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some((start, words)) = heading.take()
                    && let Event::Start(Tag::Heading { id, .. }) = &mut events[start]
                {
                    *id = Some(CowStr::from(anchors.of(&words)));
                }
            }
            _ => {}
        }
    }
    let mut body = String::new();
    html::push_html(&mut body, events.into_iter());
    Ok(page(&place, &path.display().to_string(), &body))
}

/// Returns a page that lists a folder.
fn listing(path: &Path) -> Outcome<String> {
    let mut body = format!(
        "<h1>{}</h1>\n<p>A folder of the repository:</p>\n<ul>\n",
        path.display()
    );
    for entry in entries(&root().join(path))? {
        let name = entry.file_name().unwrap_or_default().display();
        let _ = writeln!(body, "<li><code>{name}</code></li>");
    }
    body.push_str("</ul>\n");
    Ok(page(
        &Path::new(FOLDER).join(html_name(path)),
        &path.display().to_string(),
        &body,
    ))
}

fn page(place: &Path, title: &str, body: &str) -> String {
    let up = up(place);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"stylesheet\" href=\"{up}css/variables.css\">\n<link rel=\"stylesheet\" href=\"{up}css/general.css\">\n\
         <link rel=\"stylesheet\" href=\"{up}book.css\">\n</head>\n<body class=\"companion\">\n<main class=\"content\">\n\
         <p><a href=\"{up}index.html\">Whimbrel's book</a> · <code>{title}</code></p>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Returns the page with other destinations of its links; `change` returns none for a link that stays.
fn with_links(text: &str, mut change: impl FnMut(&str) -> Outcome<Option<String>>) -> Outcome<String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, end)) = next_link(rest) {
        result.push_str(&rest[..start]);
        match change(&rest[start..end])? {
            Some(changed) => result.push_str(&changed),
            None => result.push_str(&rest[start..end]),
        }
        rest = &rest[end..];
    }
    Ok(result + rest)
}

/// Returns where the next destination of a link or picture starts and ends.
fn next_link(text: &str) -> Option<(usize, usize)> {
    let start = [" href=\"", " src=\""]
        .into_iter()
        .filter_map(|attribute| Some(text.find(attribute)? + attribute.len()))
        .min()?;
    Some((start, start + text[start..].find('"')?))
}

/// Checks that every relative link of the pages leads to a file of the book.
fn dead_links(book: &Path) -> Outcome {
    let mut dead = Vec::new();
    for page in html_files(book)? {
        let inner = page.strip_prefix(book).unwrap_or(&page).to_path_buf();
        with_links(&read(&page)?, |destination| {
            let path = destination.split(['#', '?']).next().unwrap_or_default();
            let is_relative = !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:");
            if is_relative && !page.with_file_name("").join(path).exists() {
                dead.push(format!("{}: {destination}", inner.display()));
            }
            Ok(None)
        })?;
    }
    if dead.is_empty() {
        Ok(())
    } else {
        Err(format!("links of the book that lead nowhere:\n  {}", dead.join("\n  ")))
    }
}

fn html_files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = below(folder)?;
    files.retain(|path| has_extension(path, "html"));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_destinations_and_nothing_else() {
        let page = "<a href=\"a.html\">href=\"b\"</a><img src=\"c.svg\">";
        let upper = with_links(page, |link| Ok(Some(link.to_uppercase()))).unwrap();
        assert_eq!(upper, "<a href=\"A.HTML\">href=\"b\"</a><img src=\"C.SVG\">");
        assert_eq!(with_links(page, |_| Ok(None)).unwrap(), page);
    }

    #[test]
    fn links_from_built_pages_lead_to_companions() {
        let mut wanted = Wanted::default();
        let mut link = |destination| outward(&mut wanted, Path::new("schemes/jsctp.html"), destination).unwrap();
        let study = link("../../studies/jsctp-loss/README.html#claims");
        assert_eq!(
            study.as_deref(),
            Some("../repository/studies/jsctp-loss/README.html#claims")
        );
        assert_eq!(
            link("../../crates").as_deref(),
            Some("../repository/crates/README.html")
        );
        assert_eq!(link("../scenarios.html"), None);
        assert!(wanted.seen.contains(Path::new("studies/jsctp-loss/README.md")));
    }
}
