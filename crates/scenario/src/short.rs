//! Short forms of tables as the tables that they stand for, so that a path can lead into them.

use std::sync::Arc;

use crate::scheme::SLOTS;
use crate::tree::{Entry, Node, Value};

/// Writes the short form of a table out: `0.01` in `loss` becomes `{ kind = "bernoulli", rate = 0.01 }`. `key` is the field that
/// contains the value. Returns whether there is now a table.
pub(crate) fn write_out(key: &str, node: &mut Node) -> bool {
    let fields = match (key, &node.value) {
        ("loss" | "model", Value::Integer(_) | Value::Float(_)) => {
            vec![
                ("kind", Value::Text("bernoulli".to_owned())),
                ("rate", node.value.clone()),
            ]
        }
        ("jitter", Value::Text(_)) => vec![("kind", Value::Text("uniform".to_owned())), ("max", node.value.clone())],
        ("queue" | "routing", Value::Text(_)) => vec![("kind", node.value.clone())],
        (slot, Value::Text(_)) if SLOTS.contains(&slot) => vec![("kind", node.value.clone())],
        _ => return false,
    };
    let place = node.place.clone();
    let entry = |(key, value): (&str, Value)| {
        Arc::new(Entry {
            key: key.to_owned(),
            key_place: place.clone(),
            node: Node {
                value,
                place: place.clone(),
            },
        })
    };
    node.value = Value::Table(fields.into_iter().map(entry).collect());
    true
}

/// Returns the value as a table, if it is a short form of one, and otherwise as it is.
pub(crate) fn written_out(key: &str, node: &Node) -> Node {
    let mut node = node.clone();
    write_out(key, &mut node);
    node
}
