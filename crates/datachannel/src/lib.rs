//! WebRTC data channels (RFC 8831) on Whimbrel's SCTP, without I/O.

mod session;
mod streams;

pub use session::{Outgoing, Session, SessionEvent};
pub use streams::{Incoming, StreamNews};
pub use whimbrel_control::{Span, Time};
pub use whimbrel_proto::{
    AssociationConfig, CloseReason, ConfigError, ConnectError, Reliability, SendError, State, init_chunk,
};
