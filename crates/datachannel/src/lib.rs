//! WebRTC data channels on Whimbrel's SCTP, without I/O.
//!
//! [`DataChannels`] has the channels of RFC 8831 and RFC 8832: labels, text and binary messages, DCEP. [`Session`] below it has one association
//! with pairs of streams that are read by stream and closed by resets of both directions; a WebRTC stack with a DCEP of its own uses that.
//!
//! Both carry packets that another layer encrypts, such as DTLS over ICE. Here, packets go from one end to the other at once:
//!
//! ```
//! use whimbrel_control::Rng;
//! use whimbrel_datachannel::{ChannelConfig, ChannelEvent, ChannelMessage, ChannelsConfig, DataChannels, DtlsRole, Time};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Time::ZERO; // Time since any moment.
//! // Use `Rng::from_entropy` on real networks.
//! let end = |name| DataChannels::new(ChannelsConfig::default(), Box::new(Rng::stream(1, name)));
//! let (mut a, mut b) = (end("a")?, end("b")?);
//! a.set_role(now, DtlsRole::Client);
//! b.set_role(now, DtlsRole::Server);
//! a.connect(now)?;
//! let chat = a.open(now, ChannelConfig { label: "chat".to_owned(), ..ChannelConfig::default() })?;
//!
//! let mut is_open = false;
//! while !is_open {
//!     while let Some(packet) = a.poll_transmit(now) {
//!         b.handle(now, &packet);
//!     }
//!     while let Some(packet) = b.poll_transmit(now) {
//!         a.handle(now, &packet);
//!     }
//!     while let Some(event) = a.poll_event() {
//!         is_open |= matches!(event, ChannelEvent::Opened { .. });
//!     }
//! }
//! a.send(now, chat, ChannelMessage::Text("hello".to_owned()))?;
//! while let Some(packet) = a.poll_transmit(now) {
//!     b.handle(now, &packet);
//! }
//! let theirs = b.channels().next().ok_or("no channel")?;
//! assert_eq!(b.channel(theirs).map(|config| &*config.label), Some("chat"));
//! assert_eq!(b.read(now, theirs), Some(ChannelMessage::Text("hello".to_owned())));
//! # Ok(())
//! # }
//! ```
//!
//! A real driver also calls [`DataChannels::handle_timeout`] at the time of [`DataChannels::next_timeout`].

mod channel;
mod channels;
mod config;
mod dcep;
mod register;
mod session;
mod streams;

pub use channel::{
    ChannelConfig, ChannelEnd, ChannelEvent, ChannelId, ChannelMessage, ChannelSendError, DtlsRole, Flaw, OpenError,
};
pub use channels::DataChannels;
pub use config::ChannelsConfig;
pub use session::{Outgoing, Session, SessionEvent};
pub use streams::{Incoming, StreamNews};
pub use whimbrel_control::{Span, Time};
pub use whimbrel_proto::{
    AssociationConfig, CloseReason, ConfigError, ConnectError, Reliability, SendError, State, init_chunk,
};
