//! The paths of an association: their addresses, states and HEARTBEATs, the path policy, and the path MTU.

mod addresses;
mod mtu;
mod pairing;
mod policy;
mod probing;
mod shared_heartbeat;
mod state;

pub(crate) use pairing::{candidates, extra_pairs, pair_address};
