//! What a stack is made from.

use std::net::SocketAddr;
use std::sync::Arc;

use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, ConfigError};

use crate::transport::Transport;

/// Addresses, port and limits of a [`Stack`](crate::Stack).
///
/// # Examples
///
/// Extensions that are off by default: ECN, NR-SACK, which lets the sender free its memory earlier, and a smaller limit for the search for the
/// MTU of each path (RFC 8899). Each is used as far as the peer has it too.
///
/// ```
/// use whimbrel::{Stack, StackConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut config = StackConfig::local(["127.0.0.1:0".parse()?]);
/// config.association.ecn = Some(true);
/// config.association.reporting.nr_sack = Some(true);
/// config.association.max_mtu = Some(9000);
/// let stack = Stack::bind(config)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Local IP addresses and UDP ports, one socket each. UDP port 0 lets the system choose one, the same for all; over
    /// [`RawIp`](crate::RawIp) all ports are 0, and over [`RawIpAndUdp`](crate::RawIpAndUdp) those of addresses without UDP. The unspecified address `0.0.0.0` stands for every IPv4 address of the host, `[::]` for every address of both versions. Empty: the
    /// addresses from which the peer of the first [`connect`](crate::Stack::connect) is reached cannot be known yet, so a
    /// stack that is made with [`Stack::toward`](crate::Stack::toward) finds them itself.
    pub local: Vec<SocketAddr>,
    /// The SCTP port; 0 takes one at random from 49152 to 65535.
    pub port: u16,
    /// Configuration of every association. The defaults are those of RFC 9260, except that Max.Burst is
    /// [`StackConfig::MAX_BURST`], HyStart++ (RFC 9406) is on, packets are paced, both buffers grow from 1 MiB up to
    /// [`StackConfig::BUFFER_MAX`], messages may have
    /// [`StackConfig::MAX_MESSAGE`] bytes, addresses may be added and removed (RFC 5061), and
    /// heartbeats are aligned to [`StackConfig::HB_ALIGNMENT`].
    /// A client that has several local addresses and a server with one also needs `path_per_local_address`.
    pub association: AssociationConfig,
    /// Associations that may wait to be accepted, at least 1. Beyond that, a peer's COOKIE ECHO is discarded: its handshake goes on with the next
    /// one (T1-cookie, after 1 s at first), and fails if none is taken in time.
    pub backlog: usize,
    /// Whether an association continues if its peer has lost its state and opens it again, from the same addresses and ports (RFC 9260
    /// §5.2.4 A). By default it ends with [`CloseReason::PeerRestarted`](crate::CloseReason::PeerRestarted), because the new process at the peer
    /// knows nothing of what came before: what had arrived can be read, then `recv` returns the reason. The new association is then accepted by
    /// the [`Listener`](crate::Listener), if there is one, and otherwise aborted. With `true`, the association delivers what both processes
    /// sent, one after the other; [`Association::restarts`](crate::Association::restarts) counts them.
    pub continue_after_restart: bool,
    /// Associations held at most, those that this end opens included: 1 to 16777216. Each takes about 5 kB besides its buffers. At the limit,
    /// one that peers opened and that has not delivered a message gives way; if there is none, peers are refused (Out of Resource).
    pub max_associations: usize,
    /// Associations that peers at one IP address may hold at a time, at least 1. An IPv6 prefix of 64 bits counts as one address. The same
    /// rule as above applies at the limit.
    pub max_associations_per_address: usize,
    /// INITs per second that are processed, from all addresses together: a flood with forged sources leaves the processor to associations. As
    /// many COOKIE ECHO are processed, and a tenth of other packets that belong to no association. `None`: no limit.
    pub max_unassociated: Option<u32>,
    /// Packets per second from one address that belong to no association and are processed: INIT, COOKIE ECHO, and what is out of the blue.
    /// More are discarded, so that a flood of them leaves the processor to associations and to other addresses. On Linux, a source that goes on
    /// all the same and has no association is blocked in the system for a second; [`Stack::discarded`](crate::Stack::discarded) does not
    /// count its packets. `None`: no limit.
    pub max_unassociated_per_address: Option<u32>,
    /// Time that a peer has for its first message after it has opened an association, or for its first acknowledgement of a message that this end
    /// has sent; then the association is aborted (Out of Resource, "no message in time"). `None` makes silent associations as good as others
    /// where a limit is reached.
    pub first_message_timeout: Option<Span>,
    /// Time without messages after which an association that a peer opened may be aborted in favour of a new one where a limit is reached: the
    /// least recently active one. If all associations together are at their limit, addresses with the most associations give way first,
    /// however active they are. `None`: associations with a message are never aborted for new ones, so that idle ones can keep out others.
    pub evict_after: Option<Span>,
    /// Memory for the buffers of all associations together, in bytes. Automatic tuning enlarges them by no more than this. Where received
    /// data and incomplete messages exceed it all the same, the association that holds most for longest without a message to its user is
    /// aborted (Out of Resource) until an eighth is free.
    pub buffer_memory: u64,
    /// Whether packets to other SCTP ports are answered as out of the blue (RFC 9260 §8.4), so that a connection to the wrong port is refused
    /// at once. `Some(false)` is for UDP ports that several stacks share. `None`: they are answered over UDP, and not over
    /// [`RawIp`](crate::RawIp) or [`RawIpAndUdp`](crate::RawIpAndUdp), where other stacks of the host may have these ports.
    pub answer_all_ports: Option<bool>,
    /// Bytes asked of the system for each socket's receive and send buffer. Linux grants no more than `net.core.rmem_max` and
    /// `net.core.wmem_max`, unless the process has CAP_NET_ADMIN; `Stack::socket_buffers` returns what was granted. 1 Gbit/s fills
    /// 4 MiB within about 20 ms, as each packet takes more memory than it has bytes: a smaller buffer loses packets whenever the process
    /// is not scheduled for so long.
    pub socket_buffer: usize,
    /// Whether one system call may send many packets (GSO). It is much cheaper, but a capture on the sending host shows
    /// the packets of one call as a single long one.
    pub segmentation_offload: bool,
    /// What carries the datagrams, such as [`RawIp`](crate::RawIp). `None`: UDP sockets of the operating system, or on a node of a simulation
    /// its simulated network.
    pub transport: Option<Arc<dyn Transport>>,
}

impl StackConfig {
    /// Packets that may be sent at once. RFC 9260 §16 recommends 4, which on a fast path means a system call for every four
    /// packets and a window that never fills; a burst of 16 packets is what TCP senders put into the network, too.
    pub const MAX_BURST: u32 = 16;

    /// Heartbeats of idle associations leave together, at multiples of this time: the process wakes up ten times a second for those of any
    /// number of associations.
    pub const HB_ALIGNMENT: Span = Span::from_millis(100);

    /// Largest size of a receive or send buffer that is tuned automatically: enough for 10 Gbit/s over 100 ms.
    pub const BUFFER_MAX: u32 = 256 << 20;

    /// Longest message that is sent or accepted by default, in bytes: [`AssociationConfig::max_message`].
    pub const MAX_MESSAGE: u32 = 16 << 20;

    /// Refuses associations without CRC32c (RFC 9653). No transport detects changed bytes as reliably: UDP does not, and one of the user's
    /// has no means to say so.
    pub(crate) fn require_checksums(&self) -> Result<(), ConfigError> {
        match self.association.zero_checksum {
            None => Ok(()),
            Some(method) => Err(ConfigError {
                field: "zero_checksum".into(),
                value: format!("{method:?}").to_lowercase(),
                hint: "requires a layer below that detects changed bytes as DTLS does; over sockets, leave it out"
                    .to_owned(),
            }),
        }
    }

    /// The defaults, on these local addresses.
    pub fn local(local: impl IntoIterator<Item = SocketAddr>) -> Self {
        StackConfig {
            local: local.into_iter().collect(),
            ..StackConfig::default()
        }
    }
}

impl Default for StackConfig {
    fn default() -> Self {
        StackConfig {
            local: Vec::new(),
            port: 0,
            association: AssociationConfig {
                max_burst: Self::MAX_BURST,
                pacing: Some(true),
                recv_buffer_max: Some(Self::BUFFER_MAX),
                send_buffer_max: Some(Self::BUFFER_MAX),
                max_message: Some(Self::MAX_MESSAGE),
                hystart: Some(true),
                dynamic_addresses: true,
                hb_alignment: Self::HB_ALIGNMENT,
                black_hole_detection: true,
                max_mtu: Some(u16::MAX),
                partial_reliability: true,
                stream_changes: true,
                ecn_count: true,
                ..AssociationConfig::default()
            },
            backlog: 1024,
            continue_after_restart: false,
            max_associations: 16_384,
            max_associations_per_address: 1024,
            max_unassociated: Some(30_000),
            max_unassociated_per_address: Some(5000),
            first_message_timeout: Some(Span::from_secs(60)),
            evict_after: None,
            buffer_memory: 512 << 20,
            answer_all_ports: None,
            socket_buffer: 4 << 20,
            segmentation_offload: true,
            transport: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_proto::ErrorDetection;

    use super::*;

    #[test]
    fn rfc_9653_3_sockets_refuse_packets_without_checksum() {
        let mut config = StackConfig::default();
        config.require_checksums().expect("the default");
        config.association.zero_checksum = Some(ErrorDetection::Dtls);
        let error = config.require_checksums().expect_err("UDP is no such layer");
        assert_eq!(
            error.to_string(),
            "zero_checksum = dtls: requires a layer below that detects changed bytes as DTLS does; over sockets, leave it out"
        );
        let error = crate::Stack::bind(config).expect_err("refused");
        assert!(matches!(error, crate::BindError::Config(_)), "{error}");
    }
}
