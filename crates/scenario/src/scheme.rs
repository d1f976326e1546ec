//! Texts about schemes and parts for `whimbrel schemes`.

use std::fmt::Write as _;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;
use whimbrel_control::Scheme;
use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::multipath::coupling::CouplingSpec;
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::policy::PathPolicySpec;
use whimbrel_control::multipath::{Accounting, BufferSplit, ReportingChanges, RetransmitPath};
use whimbrel_control::part::PartInfo;
use whimbrel_control::recovery::RecoveryChanges;
use whimbrel_control::window::WindowSpec;

/// The parts of a scheme, as in a flow's `sctp` table.
#[derive(Serialize)]
struct Snippet {
    discriminator: DiscriminatorSpec,
    window: WindowSpec,
    ecn: bool,
    ecn_cwr: bool,
    eci: bool,
    timestamps: bool,
    pacing: bool,
    #[serde(skip_serializing_if = "is_default")]
    missing_reports: Option<u8>,
    #[serde(skip_serializing_if = "is_default")]
    accounting: Accounting,
    #[serde(skip_serializing_if = "is_default")]
    distribution: DistributionSpec,
    #[serde(skip_serializing_if = "is_default")]
    retransmit_path: RetransmitPath,
    #[serde(skip_serializing_if = "is_default")]
    coupling: CouplingSpec,
    #[serde(skip_serializing_if = "is_default")]
    buffer_split: BufferSplit,
    #[serde(skip_serializing_if = "is_default")]
    opportunistic_retransmission: bool,
    #[serde(skip_serializing_if = "is_default")]
    penalise: bool,
    #[serde(skip_serializing_if = "is_default")]
    path_policy: PathPolicySpec,
    #[serde(skip_serializing_if = "is_default")]
    reporting: ReportingChanges,
    #[serde(skip_serializing_if = "is_default")]
    recovery: RecoveryChanges,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns the tables of a flow that describe a scheme without its name, to be copied behind a `[[flow]]` and changed.
pub fn scheme_snippet(scheme: Scheme) -> String {
    let parts = scheme.parts();
    let snippet = Snippet {
        recovery: RecoveryChanges::between(&parts.recovery),
        discriminator: parts.discriminator,
        window: parts.window,
        ecn: parts.ecn,
        ecn_cwr: parts.ecn_cwr,
        eci: parts.eci,
        timestamps: parts.timestamps,
        pacing: parts.pacing,
        missing_reports: parts.missing_reports,
        accounting: parts.accounting,
        distribution: parts.distribution,
        retransmit_path: parts.retransmit_path,
        coupling: parts.coupling,
        buffer_split: parts.buffer_split,
        opportunistic_retransmission: parts.opportunistic_retransmission,
        penalise: parts.penalise,
        path_policy: parts.path_policy,
        reporting: ReportingChanges::between(&parts.reporting),
    };
    let tables = [(
        "flow",
        [("sctp", snippet)]
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>(),
    )]
    .into_iter()
    .collect::<std::collections::BTreeMap<_, _>>();
    // Converted to a value first, so that plain values precede tables as TOML requires.
    let value = toml::Value::try_from(tables).expect("parts are plain data with text keys");
    let text = toml::to_string(&value).expect("a TOML value can be written as TOML");
    format!("# {scheme}: {}\n# {}\n{text}", scheme.summary(), scheme.source())
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

/// Families of parts, by the name of their slot in scenario files.
pub fn families() -> [(&'static str, Vec<PartText>); 5] {
    [
        ("discriminator", texts::<DiscriminatorSpec>(DiscriminatorSpec::ALL)),
        ("window", texts::<WindowSpec>(WindowSpec::ALL)),
        ("distribution", texts::<DistributionSpec>(DistributionSpec::ALL)),
        ("coupling", texts::<CouplingSpec>(CouplingSpec::ALL)),
        ("path_policy", texts::<PathPolicySpec>(PathPolicySpec::ALL)),
    ]
}

/// Returns the texts of a family of parts from its schema.
fn texts<T: JsonSchema>(infos: &[PartInfo]) -> Vec<PartText> {
    let schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>();
    let schema = schema.to_value();
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

/// Returns a parameter's description, with the words that are allowed.
fn meaning(schema: &Value, property: &Value) -> String {
    let mut text = property["description"].as_str().unwrap_or_default().replace('\n', " ");
    let reference = property
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| reference.rsplit('/').next());
    let words = reference
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
            assert_eq!(association.parts(), scheme.parts(), "{scheme}");
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
