//! Networks of two nodes, `a` and `b`, for programs in simulations.

use whimbrel::simulated::Scenario;

/// Returns the text of a scenario with a link for each entry, which has its fields besides `between`.
pub(crate) fn text(duration: &str, links: &[&str]) -> String {
    let links = links
        .iter()
        .map(|fields| format!("[[link]]\nbetween = [\"a\", \"b\"]\n{fields}\n"));
    format!(
        "duration = \"{duration}\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         flow = [{{ name = \"data\", from = \"a\", to = \"b\" }}]\n{}",
        links.collect::<String>()
    )
}

/// As [`text`], as a scenario.
pub(crate) fn scenario(duration: &str, links: &[&str]) -> Scenario {
    Scenario::from_text("network", &text(duration, links)).expect("a scenario")
}
