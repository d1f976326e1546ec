//! The native twin of the page's simulator: reads requests from standard input, a line of JSON each, and prints an answer for each.

use std::io::{BufRead as _, Write as _};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for request in std::io::stdin().lock().lines() {
        writeln!(out, "{}", whimbrel_playground::answer(&request?))?;
    }
    Ok(())
}
