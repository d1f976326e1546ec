//! The JSON schema of scenario files, generated from the code.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value};
use whimbrel_sim::config::SimConfig;

use crate::group::{FlowGroup, NodeGroup};
use crate::scenario::Head;

/// Axes of a sweep: dotted paths of fields, each with a list of values. Several axes give all combinations of their values. Members
/// of arrays are named, as in `"link.wifi.loss.rate" = [0, 0.01]`.
#[derive(Serialize, JsonSchema)]
struct Sweep(std::collections::BTreeMap<String, Vec<Value>>);

/// Returns the JSON schema (draft 2020-12) of scenario files, for editors that complete and check TOML.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let head = generator.subschema_for::<Head>();
    let sim = generator.subschema_for::<SimConfig>();
    let sweep = generator.subschema_for::<Sweep>();
    let groups = [
        ("NodeConfig", generator.subschema_for::<NodeGroup>()),
        ("FlowConfig", generator.subschema_for::<FlowGroup>()),
    ];
    let mut definitions = generator.take_definitions(true);
    for (single, group) in groups {
        add_keys(&mut definitions, single, &group);
    }
    let mut root = Map::new();
    root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    root.insert("title".into(), "Whimbrel scenario".into());
    root.insert("type".into(), "object".into());
    let mut properties = Map::new();
    let mut required = Vec::new();
    for part in [head, sim] {
        let mut definition = definitions
            .remove(&name_of(&part))
            .expect("what is referred to is defined");
        if let Some(Value::Object(own)) = definition.get_mut("properties") {
            properties.append(own);
        }
        if let Some(Value::Array(own)) = definition.get_mut("required") {
            required.append(own);
        }
    }
    let mut sweep = sweep.to_value();
    sweep["description"] = "Fields that take several values, one for each point.".into();
    properties.insert("sweep".into(), sweep);
    root.insert("properties".into(), properties.into());
    root.insert("required".into(), required.into());
    root.insert("additionalProperties".into(), false.into());
    root.insert("$defs".into(), definitions.into());
    root.into()
}

/// Returns the name of a structure's definition.
fn name_of(structure: &Schema) -> String {
    structure
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| reference.rsplit('/').next())
        .expect("a struct is generated as a reference")
        .to_owned()
}

/// Adds the keys of groups. With `pairs` a flow has no `from` and `to`.
fn add_keys(definitions: &mut Map<String, Value>, single: &str, group: &Schema) {
    let keys = definitions
        .remove(&name_of(group))
        .expect("what is referred to is defined");
    let single = definitions.get_mut(single).expect("scenarios have nodes and flows");
    if let (Some(Value::Object(properties)), Some(Value::Object(keys))) =
        (single.get_mut("properties"), keys.get("properties"))
    {
        properties.extend(keys.clone());
    }
    if let Some(Value::Array(required)) = single.get_mut("required") {
        required.retain(|key| key != "from" && key != "to");
    }
}
