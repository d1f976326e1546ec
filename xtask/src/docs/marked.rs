//! The generated part of a page, between two marks. What is written by hand lies outside of them.

use crate::chore::Outcome;

const BEGIN: &str = "<!-- generated -->\n";
const END: &str = "<!-- end -->\n";

/// Returns the text of the page `name` with other content between the marks.
pub(super) fn inserted(name: &str, old: &str, text: &str) -> Outcome<String> {
    let begin = old.find(BEGIN).map(|at| at + BEGIN.len());
    let end = old.find(END);
    match begin.zip(end).filter(|(begin, end)| begin <= end) {
        Some((begin, end)) => Ok(format!("{}{text}{}", &old[..begin], &old[end..])),
        None => Err(format!(
            "{name} needs the lines `{}` and `{}`",
            BEGIN.trim(),
            END.trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_what_lies_between_the_marks() {
        let old = "# Page\n\n<!-- generated -->\nold\n<!-- end -->\nafter\n";
        let new = inserted("page", old, "new\n").unwrap();
        assert_eq!(new, "# Page\n\n<!-- generated -->\nnew\n<!-- end -->\nafter\n");
        assert!(inserted("page", "# Page\n", "new\n").is_err());
    }
}
