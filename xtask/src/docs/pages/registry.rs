//! The registered schemes and parts, as the command prints them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What `whimbrel schemes --json` prints.
#[derive(Deserialize)]
pub(super) struct Registry {
    pub(super) schemes: Vec<Scheme>,
    pub(super) slots: Vec<Slot>,
}

#[derive(Deserialize)]
pub(super) struct Scheme {
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) source: String,
    /// The name of the part in each slot.
    pub(super) parts: BTreeMap<String, String>,
    pub(super) toml: String,
}

#[derive(Deserialize)]
pub(super) struct Slot {
    pub(super) slot: String,
    pub(super) parts: Vec<PartRow>,
}

#[derive(Deserialize)]
pub(super) struct PartRow {
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) source: String,
    pub(super) parameters: Vec<Parameter>,
}

#[derive(Deserialize)]
pub(super) struct Parameter {
    pub(super) name: String,
    /// As JSON; none if it has no default.
    pub(super) default: Option<String>,
    pub(super) meaning: String,
}
