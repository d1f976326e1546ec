//! A recorded event.

use serde::Deserialize;
use serde_json::{Map, Value};

/// A line of `events.jsonl`.
#[derive(Deserialize, Debug)]
pub(super) struct Event {
    /// Milliseconds since the start of the run.
    pub(super) time: f64,
    pub(super) name: String,
    #[serde(default)]
    pub(super) flow: String,
    #[serde(default)]
    pub(super) node: String,
    #[serde(default)]
    pub(super) data: Map<String, Value>,
}

impl Event {
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.data.get(field).and_then(Value::as_u64)
    }

    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.data.get(field).and_then(Value::as_str)
    }
}
