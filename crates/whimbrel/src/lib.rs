//! SCTP over UDP (RFC 6951) or directly over IP, for tokio, driven by the protocol code of `whimbrel-proto`.
//!
//! A [`Stack`] owns UDP sockets and one SCTP port; a [`Listener`] is a stack that accepts associations. Both give
//! [`Association`]s, which send and receive whole messages on many streams. A task of its own drives each stack: it takes
//! datagrams from the sockets in batches, hands them to the endpoint, sends what the endpoint wants sent, and sleeps until
//! the endpoint's next timeout. It ends when the last handle and the last association are gone.
//!
//! What peers may make a stack hold is bounded: the length of a message, the number of associations in total and per address, the time
//! until the first message, the memory for received data. [`StackConfig`] has the limits; their defaults suit a server on the Internet
//! whose clients speak first.
//!
//! # Tasks
//!
//! | to | |
//! |---|---|
//! | connect to several addresses, accept | [`Stack::connect`], [`Listener::accept`] |
//! | send with options, receive | [`Association::send`] with a [`Message`]; [`Association::recv`] |
//! | read and write bytes | [`Association::stream`] |
//! | end in good order, abort with a reason | [`Association::shutdown`], [`Association::abort`] |
//! | watch paths and rates | [`Association::path_events`], [`Association::statistics`], [`Association::ping`] |
//! | record windows, losses and verdicts | [`Stack::trace`] |
//! | add and remove addresses | [`Stack::add_local_address`], [`Stack::remove_local_address`]; [`Stack::follow_addresses`], [`AddressWatch`] |
//! | choose or change the scheme | [`AssociationConfig::scheme`], [`Association::set_congestion_control`] |
//! | use SCTP directly over IP | [`RawIp`], [`RawIpAndUdp`] |
//! | carry datagrams otherwise | [`transport::Transport`] |
//! | test with outages and crashes, in virtual time | `simulated` (feature `simulated`) |
//!
//! Each method that waits says what happens if its future is dropped before it is ready ("Cancel safety").
//!
//! # Names of RFC 6458, RFC 7496 and RFC 8260
//!
//! | sockets API | here |
//! |---|---|
//! | `sctp_bindx` | [`StackConfig::local`], [`Stack::add_local_address`], [`Stack::remove_local_address`] |
//! | `sctp_connectx` | [`Stack::connect`] |
//! | `sctp_sendv`: `snd_sid`, `snd_ppid`, `snd_context`, `SCTP_UNORDERED`, `SCTP_SACK_IMMEDIATELY` | [`Message::stream`], [`ppid`](Message::ppid), [`context`](Message::context), [`unordered`](Message::unordered), [`immediate`](Message::immediate) |
//! | `SCTP_EOF`, `SCTP_ABORT` | [`Association::shutdown`], [`Association::abort`] |
//! | `sctp_recvv`, `rcv_sid`, `rcv_ppid` | [`Association::recv`], [`ReceivedMessage`] |
//! | `sctp_getpaddrs`, `sctp_getladdrs` | [`Association::peer_addrs`], [`Association::local_addrs`] |
//! | `SCTP_STATUS`, `SCTP_GET_PEER_ADDR_INFO`, `SCTP_GET_ASSOC_STATS` | [`Association::status`], [`Association::paths`], [`Association::stats`], [`Association::statistics`] |
//! | `SCTP_PEER_ADDR_CHANGE` | [`Association::path_events`] |
//! | `SCTP_SEND_FAILED_EVENT` | [`Association::send_failures`] |
//! | `SCTP_SENDER_DRY_EVENT` | [`Association::flush`] |
//! | `SCTP_ASSOC_CHANGE`, `SCTP_SHUTDOWN_EVENT` | [`Association::closed`], [`Association::peer_shutdown`]; for `SCTP_RESTART` [`CloseReason::PeerRestarted`], or with [`StackConfig::continue_after_restart`] [`Association::restarts`] |
//! | `SCTP_PRIMARY_ADDR`, `SCTP_SET_PEER_PRIMARY_ADDR` | [`Association::set_primary`], [`Association::prefer_local_address`] |
//! | `SCTP_RTOINFO`, `SCTP_ASSOCINFO`, `SCTP_INITMSG`, `SCTP_PEER_ADDR_PARAMS`, `SCTP_DELAYED_SACK`, `SCTP_MAX_BURST` | [`AssociationConfig`] |
//! | `SPP_PMTUD_ENABLE`, `spp_pathmtu`, `SCTP_MAXSEG` | [`AssociationConfig::max_mtu`] (on by default: RFC 8899), [`PathInfo::mtu`], [`AssociationConfig::mtu`] |
//! | `SCTP_INTERLEAVING_SUPPORTED`, `SCTP_STREAM_SCHEDULER`, `SCTP_STREAM_SCHEDULER_VALUE` | [`AssociationConfig::interleaving`], [`AssociationConfig::scheduler`], [`Association::set_stream_value`] |
//! | `SCTP_PR_SUPPORTED`; `SCTP_PR_SCTP_TTL`, `SCTP_PR_SCTP_RTX`, `SCTP_PR_SCTP_PRIO` | [`AssociationConfig::partial_reliability`]; [`Message::reliability`] |
//! | `SCTP_RESET_STREAMS`, `SCTP_ADD_STREAMS`; `SCTP_STREAM_RESET_EVENT`, `SCTP_STREAM_CHANGE_EVENT`; `SCTP_ENABLE_STREAM_RESET` | [`Association::change_streams`]; [`Association::next_stream_change`]; [`AssociationConfig::stream_changes`] |
//! | `SCTP_AUTH_CHUNK`, `SCTP_HMAC_IDENT`, `SCTP_AUTH_KEY` | [`AuthConfig`] |
//!
//! # Examples
//!
//! ```
//! use whimbrel::{Listener, Message, Stack, StackConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Listener::bind(StackConfig::local(["127.0.0.1:0".parse()?]))?;
//! let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
//! let server = tokio::spawn(async move {
//!     let association = listener.accept().await?;
//!     while let Some(message) = association.recv().await? {
//!         association.send(Message::new(message.stream, message.data)).await?;
//!     }
//!     Ok::<(), whimbrel::AssociationError>(())
//! });
//!
//! let stack = Stack::bind(StackConfig::local(["127.0.0.1:0".parse()?]))?;
//! let association = stack.connect(&addrs, port).await?;
//! association.send(Message::new(0, "hello")).await?;
//! assert_eq!(association.recv().await?.ok_or("no answer")?.data, b"hello");
//! association.shutdown().await?;
//! server.await??;
//! # Ok(())
//! # }
//! ```

mod association;
mod config;
mod driver;
mod egress;
mod environment;
mod error;
#[cfg(target_os = "linux")]
mod filter;
mod flood;
mod interface;
#[cfg(target_os = "linux")]
mod ip;
mod mtu;
mod netlink;
mod opened;
mod outgoing;
mod paths;
mod raw;
mod shared;
#[cfg(feature = "simulated")]
pub mod simulated;
mod stack;
mod statistics;
mod stream;
mod stream_changes;
mod streams;
mod system;
mod timer;
pub mod trace;
pub mod transport;
mod trouble;
mod udp;
mod watch;

pub use association::{Association, AssociationStatus, ReceivedMessage};
pub use config::StackConfig;
pub use error::{AssociationError, BindError, ConnectError, TrySendError};
pub use paths::{PathChange, PathEvent, PathEvents};
pub use raw::{RawIp, RawIpAndUdp};
pub use stack::{Listener, Stack};
pub use statistics::{Snapshot, Statistics};
pub use stream::Stream;
pub use streams::ChangeStreamsError;
pub use timer::TIMER_GRANULARITY;
pub use transport::Trouble;
pub use udp::Udp;
pub use watch::{AddressChange, AddressWatch};
pub use whimbrel_control::discriminator::{self, DiscriminatorSpec};
pub use whimbrel_control::multipath::coupling::CouplingSpec;
pub use whimbrel_control::multipath::distribution::DistributionSpec;
pub use whimbrel_control::multipath::policy::PathPolicySpec;
pub use whimbrel_control::multipath::{self, Accounting, BufferSplit, ReportingChanges, RetransmitPath};
pub use whimbrel_control::recovery::{self, RecoveryChanges};
pub use whimbrel_control::window::{self, WindowSpec};
pub use whimbrel_control::{Rate, Scheme, SchemeParts, Span};
pub use whimbrel_proto::{
    AddressError, AssociationConfig, AssociationStats, AuthConfig, CloseReason, ConfigError, Discard, Ecn,
    ErrorDetection, HeartbeatTimer, JudgedLosses, MAX_PINGS, Message, MessagePayload, PathId, PathInfo, PathQuality,
    PathState, PeerIdentity, Preset, ProtectionConfig, ProtectionStats, Reliability, Role, RuleChanges, Scheduler,
    SendFailure, SendFailureCause, State as AssociationState, StreamChange, StreamChangeError, StreamList,
};

/// The UDP port registered for SCTP encapsulated in UDP (RFC 6951 §5.1).
pub const UDP_ENCAPSULATION_PORT: u16 = 9899;
