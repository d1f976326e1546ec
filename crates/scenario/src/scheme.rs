//! Texts about schemes and parts for `whimbrel schemes`.

use std::fmt::Write as _;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use whimbrel_control::Scheme;
use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::multipath::coupling::CouplingSpec;
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::policy::PathPolicySpec;
use whimbrel_control::part::PartInfo;
use whimbrel_control::window::WindowSpec;
use whimbrel_proto::AssociationConfig;

/// Width of comments in the text of a scheme.
const COMMENT_WIDTH: usize = 98;

/// Returns the tables of a flow that describe a scheme without its name, to be copied behind a `[[flow]]` and changed. The meaning of
/// each value precedes it as a comment.
pub fn scheme_snippet(scheme: Scheme) -> String {
    let parts = toml::Table::try_from(scheme.parts()).expect("parts are plain data with text keys");
    let schema = schema_of::<AssociationConfig>();
    let families = families();
    let mut text = format!("# {scheme}: {}\n# {}\n[flow.sctp]\n", scheme.summary(), scheme.source());
    let (tables, plain): (Vec<_>, Vec<_>) = parts.iter().partition(|(_, value)| value.is_table());
    for (name, value) in plain {
        let meaning = meaning(&schema, &schema["properties"][name]);
        // Here every value is present.
        let meaning = meaning.split(" Absent: ").next().unwrap_or_default();
        write_value(&mut text, name, value, meaning);
    }
    for (slot, table) in tables {
        let _ = writeln!(text, "\n[flow.sctp.{slot}]");
        let table = table.as_table().expect("partitioned by that");
        let family = families.iter().find(|(name, _)| name == slot);
        let part = family.and_then(|(_, parts)| {
            let kind = table.get("kind")?.as_str()?;
            parts.iter().find(|part| part.info.name == kind)
        });
        if let Some(PartText { info, .. }) = part {
            let meaning = format!("{} ({})", info.summary, info.source);
            write_value(&mut text, "kind", &toml::Value::from(info.name), &meaning);
        }
        for (name, value) in table.iter().filter(|(name, _)| *name != "kind") {
            let parameter = part.and_then(|part| part.parameters.iter().find(|parameter| parameter.name == *name));
            let meaning = match parameter {
                Some(parameter) => parameter.meaning.clone(),
                None => {
                    let bundle = reference(&schema["properties"][slot]).unwrap_or_default();
                    meaning(&schema, &schema["$defs"][bundle]["properties"][name])
                }
            };
            write_value(&mut text, name, value, &meaning);
        }
    }
    text
}

/// Writes a key and its value, and its meaning before it.
fn write_value(text: &mut String, name: &str, value: &toml::Value, meaning: &str) {
    for line in wrapped(meaning, COMMENT_WIDTH) {
        let _ = writeln!(text, "# {line}");
    }
    let _ = writeln!(text, "{name} = {value}");
}

/// Breaks a text at spaces into lines of at most `width` characters.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines
            .last_mut()
            .filter(|line| line.len() + 1 + word.len() <= width || line.is_empty());
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A parameter of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterText {
    /// Its name.
    pub name: String,
    /// Its default as TOML; none if it has none.
    pub default: Option<String>,
    /// Its meaning, with unit and range.
    pub meaning: String,
}

/// A part with its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartText {
    /// Name, summary and source.
    pub info: PartInfo,
    /// Its parameters in alphabetical order.
    pub parameters: Vec<ParameterText>,
}

/// Names of the fields of a scheme that hold its parts.
pub(crate) const SLOTS: [&str; 5] = ["discriminator", "window", "distribution", "coupling", "path_policy"];

/// Families of parts, by the name of their slot in scenario files.
pub fn families() -> [(&'static str, Vec<PartText>); 5] {
    let [discriminator, window, distribution, coupling, path_policy] = SLOTS;
    [
        (discriminator, texts::<DiscriminatorSpec>(DiscriminatorSpec::ALL)),
        (window, texts::<WindowSpec>(WindowSpec::ALL)),
        (distribution, texts::<DistributionSpec>(DistributionSpec::ALL)),
        (coupling, texts::<CouplingSpec>(CouplingSpec::ALL)),
        (path_policy, texts::<PathPolicySpec>(PathPolicySpec::ALL)),
    ]
}

/// Returns the texts of a family of parts from its schema.
fn texts<T: JsonSchema>(infos: &[PartInfo]) -> Vec<PartText> {
    let schema = schema_of::<T>();
    let tables = find(&schema, "oneOf").and_then(Value::as_array);
    infos
        .iter()
        .map(|&info| {
            let table = tables
                .into_iter()
                .flatten()
                .find(|table| table["properties"]["kind"]["const"] == info.name);
            let properties = table.and_then(|table| table["properties"].as_object());
            let parameters = properties
                .into_iter()
                .flatten()
                .filter(|(name, _)| name.as_str() != "kind")
                .map(|(name, property)| ParameterText {
                    name: name.clone(),
                    default: property.get("default").map(Value::to_string),
                    meaning: meaning(&schema, property),
                })
                .collect();
            PartText { info, parameters }
        })
        .collect()
}

fn schema_of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// Returns the first value with this key in the schema itself, without its definitions.
fn find<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    match value {
        Value::Object(object) => object.get(key).or_else(|| {
            let inner = object.iter().filter(|(name, _)| name.as_str() != "$defs");
            inner.into_iter().find_map(|(_, value)| find(value, key))
        }),
        Value::Array(items) => items.iter().find_map(|item| find(item, key)),
        _ => None,
    }
}

/// Returns the name of the type that a property refers to.
fn reference(property: &Value) -> Option<&str> {
    let reference = property.get("$ref").or_else(|| property["anyOf"][0].get("$ref"))?;
    reference.as_str()?.rsplit('/').next()
}

/// Returns a parameter's description, with the words that are allowed.
fn meaning(schema: &Value, property: &Value) -> String {
    let mut text = property["description"].as_str().unwrap_or_default().replace('\n', " ");
    let words = reference(property)
        .map(|name| &schema["$defs"][name])
        .and_then(|definition| definition.get("oneOf"))
        .and_then(Value::as_array);
    for word in words.into_iter().flatten() {
        if let (Some(name), Some(description)) = (word["const"].as_str(), word["description"].as_str()) {
            let _ = write!(text, " \"{name}\": {}", description.replace('\n', " "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Scenario;

    const REST: &str = r#"
[[node]]
name = "a"

[[node]]
name = "b"

[[link]]
name = "ab"
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "10 ms"

[[flow]]
name = "bulk"
from = "a"
to = "b"
"#;

    #[test]
    fn every_scheme_as_a_snippet_is_that_scheme() {
        for scheme in Scheme::all() {
            let text = format!("{REST}\n{}", scheme_snippet(scheme));
            let scenario = Scenario::from_text(Path::new("snippet.toml"), &text, &[]);
            let scenario = scenario.unwrap_or_else(|error| panic!("{scheme}: {error}\n{text}"));
            let association = scenario.points[0].config.flow[0].sender_association();
            assert_eq!(association.scheme, Scheme::default());
            assert_values_have_meanings(&text);
            assert_eq!(association.parts(), scheme.parts(), "{scheme}");
        }
    }

    /// A comment precedes each value of the scheme, and `kind` is the first one of its table.
    fn assert_values_have_meanings(text: &str) {
        let lines: Vec<_> = text.lines().skip_while(|line| *line != "[flow.sctp]").collect();
        for (above, line) in lines.iter().zip(&lines[1..]) {
            if line.contains(" = ") && !line.starts_with('#') {
                assert!(above.starts_with("# "), "{line}: {text}");
            }
        }
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("kind = ")) {
            let before = lines[..at].iter().rev().find(|line| !line.starts_with('#'));
            assert!(before.is_some_and(|line| line.starts_with('[')), "{text}");
        }
    }

    #[test]
    fn every_parameter_has_a_meaning_and_a_default() {
        let parts: Vec<_> = families().into_iter().flat_map(|(_, parts)| parts).collect();
        assert!(parts.len() >= 20);
        for part in parts {
            for parameter in part.parameters {
                let place = format!("{}.{}", part.info.name, parameter.name);
                assert!(!parameter.meaning.is_empty(), "{place}");
                let is_optional =
                    ["k", "bandwidth", "bytes", "switchover_max_retrans"].contains(&parameter.name.as_str());
                assert!(parameter.default.is_some() || is_optional, "{place}");
            }
        }
        let [(_, discriminators), ..] = families();
        let jitter = discriminators
            .into_iter()
            .find(|part| part.info.name == "jitter")
            .unwrap();
        let alpha = &jitter.parameters[0];
        assert_eq!((alpha.name.as_str(), alpha.default.as_deref()), ("alpha", Some("0.05")));
    }
}
