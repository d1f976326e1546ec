//! A deterministic network simulator that drives the protocol code.
//!
//! [`config`] says what is simulated: nodes, links, flows, the measurement.

pub mod config;
pub mod loss;
pub mod queue;
pub mod topology;
