//! What a stack is made from.

use std::net::SocketAddr;

use whimbrel_proto::AssociationConfig;

/// Addresses, port and limits of a [`Stack`](crate::Stack).
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Local IP addresses and UDP ports, one socket each. UDP port 0 lets the system choose one, the same for all. An
    /// unspecified address (`0.0.0.0`, `[::]`) stands for every address of the host of that IP version. Empty: the
    /// addresses from which the peer of the first [`connect`](crate::Stack::connect) is reached cannot be known yet, so a
    /// stack that is made with [`Stack::toward`](crate::Stack::toward) finds them itself.
    pub local: Vec<SocketAddr>,
    /// The SCTP port; 0 takes one at random from 49152 to 65535.
    pub port: u16,
    /// Configuration of every association. The defaults are those of RFC 9260, except that Max.Burst is
    /// [`StackConfig::MAX_BURST`], and both buffers grow from 1 MiB up to [`StackConfig::BUFFER_MAX`].
    pub association: AssociationConfig,
    /// Associations that may wait to be accepted; more are aborted.
    pub backlog: usize,
    /// Bytes by which automatic tuning may enlarge the buffers of all associations together.
    pub buffer_memory: u64,
    /// Bytes asked of the system for each socket's receive and send buffer. The system may grant less.
    pub socket_buffer: usize,
    /// Whether one system call may send many packets (GSO). It is much cheaper, but a capture on the sending host shows
    /// the packets of one call as a single long one.
    pub segmentation_offload: bool,
}

impl StackConfig {
    /// Packets that may be sent at once. RFC 9260 §16 recommends 4, which on a fast path means a system call for every four
    /// packets and a window that never fills; a burst of 16 packets is what TCP senders put into the network, too.
    pub const MAX_BURST: u32 = 16;

    /// Largest size of a receive or send buffer that is tuned automatically: enough for 10 Gbit/s over 100 ms.
    pub const BUFFER_MAX: u32 = 256 << 20;

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
                recv_buffer_max: Some(Self::BUFFER_MAX),
                send_buffer_max: Some(Self::BUFFER_MAX),
                ..AssociationConfig::default()
            },
            backlog: 128,
            buffer_memory: 512 << 20,
            socket_buffer: 4 << 20,
            segmentation_offload: true,
        }
    }
}
