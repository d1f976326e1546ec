//! `cargo xtask book`: builds the book of `docs/` with mdBook, and checks the links of all Markdown files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{companions, markdown};
use crate::chore::{Outcome, root, say};
use crate::files::read;
use crate::process;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only check the links of all Markdown files, which needs no mdbook
    #[arg(long)]
    links: bool,
    /// Also print the book to target/book/whimbrel.pdf, with Chromium
    #[arg(long, conflicts_with = "links")]
    pdf: bool,
}

/// Where `docs/book.toml` has mdBook put the book.
const BOOK: &str = "target/book";

pub(crate) fn run(args: &Args) -> Outcome {
    let (files, links) = markdown::check()?;
    contents()?;
    say(&format!(
        "{links} relative links in {files} Markdown files lead to existing files and headings"
    ));
    if args.links {
        return Ok(());
    }
    let book = root().join(BOOK);
    let mut mdbook = Command::new("mdbook");
    process::output(mdbook.arg("--version")).map_err(|_| {
        "mdbook is missing: `cargo install --locked mdbook` installs it; `cargo xtask book --links` checks links without it"
            .to_owned()
    })?;
    if book.exists() {
        std::fs::remove_dir_all(&book).map_err(|e| format!("cannot remove {BOOK}: {e}"))?;
    }
    process::run(Command::new("mdbook").args(["build", "docs"]).current_dir(root()))?;
    let copied = companions::add(&book)?;
    say(&format!(
        "{BOOK}/index.html is the book; {BOOK}/repository has {copied} files from outside of docs/ that it links to"
    ));
    add_playground(&book)?;
    if args.pdf { pdf(&book) } else { Ok(()) }
}

/// The page that `cargo xtask playground` writes.
const PLAYGROUND: &str = "target/playground/index.html";

/// Puts the playground on the book's first page, if it has been built.
fn add_playground(book: &Path) -> Outcome {
    let page = root().join(PLAYGROUND);
    if !page.is_file() {
        say(&format!(
            "the first page has no playground: {PLAYGROUND} is missing, `cargo xtask playground` builds it"
        ));
        return Ok(());
    }
    let failed = |e: std::io::Error| format!("cannot put the playground into the book: {e}");
    std::fs::copy(&page, book.join("play.html")).map_err(failed)?;
    let first = book.join("index.html");
    let text = std::fs::read_to_string(&first).map_err(failed)?;
    std::fs::write(&first, with_playground(&text)?).map_err(failed)
}

/// Adds the playground to a page, before its text.
fn with_playground(page: &str) -> Outcome<String> {
    let start = "<main>";
    let frame = r#"<p class="play"><a href="play.html">Open the playground alone</a></p>
<iframe class="play" src="play.html" title="Playground: two schemes in the same simulated network" loading="lazy"></iframe>"#;
    match page.split_once(start) {
        Some((before, after)) => Ok(format!("{before}{start}\n{frame}{after}")),
        None => Err(format!("the book's first page has no {start}")),
    }
}

/// Prints all pages to one file.
fn pdf(book: &Path) -> Outcome {
    let chromium = process::chromium().ok_or("chromium is missing: Debian's package chromium has it")?;
    let file = book.join("whimbrel.pdf");
    let mut print = Command::new(chromium);
    // The sandbox needs privileges that containers do not have; the page is our own.
    print.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]);
    print.arg(format!("--print-to-pdf={}", file.display()));
    print.arg(format!("file://{}", book.join("print.html").display()));
    let printed = print
        .output()
        .map_err(|error| format!("cannot start {chromium}: {error}"))?;
    let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
    if !printed.status.success() || bytes == 0 {
        let said = String::from_utf8_lossy(&printed.stderr);
        return Err(format!("{chromium} wrote no PDF: {}\n{said}", printed.status));
    }
    say(&format!(
        "{BOOK}/whimbrel.pdf is the book for printing ({} kB)",
        bytes / 1000
    ));
    Ok(())
}

/// Checks that `SUMMARY.md` lists every page of `docs/`.
fn contents() -> Outcome {
    let path = markdown::CONTENTS;
    let text = read(&root().join(path))?;
    let listed: BTreeSet<PathBuf> = markdown::Page::parse(&text)
        .links
        .iter()
        .filter_map(|(_, destination)| Some(markdown::resolve(Path::new(path), destination)?.path))
        .collect();
    let missing: Vec<_> = markdown::files()?
        .into_iter()
        .filter(|file| file.starts_with("docs") && file != Path::new(path) && !listed.contains(file))
        .map(|file| file.display().to_string())
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("{path} does not list {}", missing.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::with_playground;

    #[test]
    fn the_playground_precedes_the_text_of_the_first_page() {
        let page = with_playground("<body><main><h1>Whimbrel</h1></main></body>").unwrap();
        let (frame, title) = (page.find("<iframe").unwrap(), page.find("<h1>").unwrap());
        assert!(page.starts_with("<body><main>\n") && frame < title, "{page}");
        assert!(with_playground("<body></body>").is_err());
    }
}
