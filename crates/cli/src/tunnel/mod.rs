//! `whimbrel tunnel`: TCP connections, UDP datagrams and IP packets over one association.

pub(crate) mod channel;
pub(crate) mod datagrams;
pub(crate) mod device;
pub(crate) mod events;
pub(crate) mod flows;
pub(crate) mod forward;
#[cfg(target_os = "linux")]
mod handling;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod lookups;
pub(crate) mod mux;
pub(crate) mod network;
mod order;
pub(crate) mod ports;
pub(crate) mod protocol;
mod remote;
mod reports;
mod routes;
