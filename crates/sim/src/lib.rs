//! A deterministic network simulator that drives the protocol code.
//!
//! [`config`] describes a simulation: nodes, links, flows, the measurement. [`World::new`] builds it with a seed, [`World::run`]
//! runs it and returns a [`RunResult`]. Time is simulated, random streams are named after their purpose, and nothing depends on the
//! machine: the same scenario and seed give the same run everywhere.
//!
//! ```
//! use whimbrel_control::{Rate, Span};
//! use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, NodeConfig, SimConfig};
//! use whimbrel_sim::{Resources, RunOptions, World};
//!
//! let mut config = SimConfig::empty(Span::from_secs(10));
//! config.node = vec![NodeConfig::new("a"), NodeConfig::new("b")];
//! config.link = vec![LinkConfig::new("a", "b", Rate::from_mbps(2), Span::from_millis(10))];
//! config.flow = vec![FlowConfig::new("data", FlowKind::Sctp, "a", "b")];
//! let result = World::new(&config, 1, &Resources::default(), RunOptions::default())?.run();
//! assert!(result.flows[0].goodput_bps > 1.8e6);
//! # Ok::<(), whimbrel_sim::config::ConfigError>(())
//! ```
//!
//! A packet costs one event per hop. Packets are stored in a slab and identified by a number; events are small and `Copy`. Each end
//! of a flow is an endpoint of `whimbrel-proto`, driven according to its contract.

pub mod config;
mod control;
mod engine;
mod host;
mod ids;
mod ip;
mod kinds;
pub mod ledger;
mod link;
pub mod loss;
mod measure;
mod mesh;
mod network;
mod observer;
mod packet;
pub mod queue;
mod radio;
mod resources;
pub mod routing;
mod segment;
mod text_file;
pub mod topology;
mod truth;
mod world;

pub use control::RunControl;
pub use ip::{IpHeader, set_ce};
pub use kinds::ChunkKinds;
pub use ledger::{DropCause, DropCounts, DropEntry, Ledger, LossKind};
pub use link::{CapacityTrace, OPPORTUNITY_BYTES, TraceError};
pub use measure::{
    DelaySummary, EndReason, FileCheck, FlowOutcome, FlowResult, Histogram, LinkResult, RadioResult, RunResult,
    VerdictCounts,
};
pub use mesh::{Mesh, MeshNode, MeshPlace};
pub use observer::{
    FrameEvent, FrameKind, Interest, NoObserver, Observer, PacketEvent, PacketFate, RouteEvent, Sample,
};
pub use packet::{Congestion, IP_HEADER, Oversize, UDP_HEADER};
pub use radio::{MovementError, Movements};
pub use resources::Resources;
pub use segment::{SackBlocks, TcpFlags, TcpSegment};
pub use world::{Delivery, Entry, OpenWorld, PathMtu, RunOptions, World};
