//! A complete, multi-homed SCTP endpoint (RFC 9260) that does no I/O.
//!
//! Bytes, times and random numbers are the inputs; packets, events and deadlines are the outputs. A driver, which is a simulator or a
//! socket loop, repeats three steps:
//!
//! 1. **mutate**: pass a packet ([`Endpoint::handle_datagram`]), the passage of time ([`Endpoint::handle_timeout`]) or a
//!    user request ([`Endpoint::connect`], [`Endpoint::send`], [`Endpoint::recv`], ...);
//! 2. **drain**: call [`Endpoint::poll_transmit`] until it returns `None`, then [`Endpoint::poll_event`] until it does;
//! 3. **wait** for the next packet, or until [`Endpoint::next_timeout`].
//!
//! Additional calls have no effect.

mod address;
mod association;
mod config;
mod context;
mod endpoint;
mod error;
mod event;
mod extensions;
mod ids;
mod message;
mod packet;
mod protection;
mod receive;
mod send;
mod streams;
mod trace;

pub use address::{Ecn, PacketMeta, Transmit, TransportAddr};
pub use association::{Association, AssociationStats, MAX_PINGS, State};
pub use config::{
    AssociationConfig, AuthConfig, EndpointConfig, ErrorDetection, HeartbeatTimer, MAX_ADDRESSES, Preset, RuleChanges,
    Scheduler, SharedConfig,
};
pub use endpoint::{Endpoint, EndpointStats, init_chunk};
pub use error::{AddressError, ConfigError, ConnectError, Discard, End, InitError, SendError};
pub use event::{CloseReason, Event, SendFailure, SendFailureCause};
pub use ids::{AssocId, PathId};
pub use message::{Message, MessagePayload, Received, Reliability};
pub use protection::{
    EpochKeys, HandshakeError, InsecureNullKeys, KeyExchange, KeyHandshake, KeyLimits, KeySource, KeySources,
    MAX_METHODS, Party, PeerIdentity, Protect, ProtectionConfig, ProtectionError, ProtectionStats, Role,
};
pub use receive::ReceiverStats;
pub use send::path::{JudgedLosses, PathInfo, PathQuality, PathState, RecoveryMode};
pub use streams::{StreamChange, StreamChangeError, StreamList};
pub use trace::{LossRule, TimerKind, TraceEvent, TraceKinds, TraceRecord};
