//! JSON values as TOML, and texts as cells of Markdown tables.

use serde_json::Value as Json;

/// Returns a JSON value as TOML on one line. `kind` and `at` are the first keys of a table, as people write them.
pub(crate) fn toml(value: &Json) -> String {
    match value {
        Json::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Json::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| !matches!(name.as_str(), "kind" | "at"));
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| format!("{} = {}", key(name), toml(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Json::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Returns a key of a TOML table, in quotes if it needs them.
pub(crate) fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

/// Returns a text as a cell of a table.
pub(crate) fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{cell, toml};

    #[test]
    fn writes_values_as_toml() {
        assert_eq!(toml(&json!(0.05)), "0.05");
        assert_eq!(toml(&json!("10 s")), "\"10 s\"");
        assert_eq!(
            toml(&json!([{ "up": false, "at": "1 s" }, {}])),
            "[{ at = \"1 s\", up = false }, {}]"
        );
        assert_eq!(
            toml(&json!({ "cycle": 220, "kind": "x", "a.b": [1] })),
            "{ kind = \"x\", \"a.b\" = [1], cycle = 220 }"
        );
    }

    #[test]
    fn a_cell_has_one_line_and_no_bare_bar() {
        assert_eq!(cell("one |\n two"), "one \\| two");
    }
}
