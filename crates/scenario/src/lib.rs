//! Scenario files: a TOML file describes a network, its flows, the measurement, seeds and sweeps.
//!
//! [`Scenario::load`] reads a file, applies the changes of the command line, expands the sweep axes into points and checks each
//! point completely. All errors are reported together as [`Problem`]s with file, line, field, given value, allowed range and the
//! nearest known word. Nothing runs before that.

mod change;
mod check;
mod de;
mod document;
mod explain;
mod group;
mod problem;
mod scenario;
mod schema;
mod scheme;
mod settings;
mod short;
mod tree;
mod visible;
mod warning;

pub use document::Document;
pub use explain::{Resolved, hash};
pub use problem::{Origin, Problem, ScenarioError, word_hint};
pub use scenario::{Point, Record, Recorded, Scenario, Source};
pub use schema::schema;
pub use scheme::{ParameterText, PartText, families, scheme_snippet, wrapped};
pub use settings::change;
pub use visible::{visible, visible_json, visible_lines, visible_xml};
pub use whimbrel_control::Scheme;
pub use whimbrel_control::multipath::Accounting;
