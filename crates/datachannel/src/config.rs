//! The settings of data channels.

use whimbrel_proto::AssociationConfig;

use crate::session::DEFAULT_MAX_INCOMPLETE;

/// What a peer accepts if its session description does not say (RFC 8841 §6.1), in bytes.
const DEFAULT_MAX_MESSAGE: u32 = 64 << 10;

/// The settings of [`DataChannels`](crate::DataChannels).
#[derive(Clone, Debug)]
pub struct ChannelsConfig {
    /// The association.
    pub association: AssociationConfig,
    /// SCTP port of this end (`sctp-port`, RFC 8841).
    pub local_port: u16,
    /// SCTP port of the peer.
    pub peer_port: u16,
    /// The longest message in bytes that the peer accepts: `max-message-size` of its session description, 0 for any length.
    pub peer_max_message: u32,
    /// The longest message in bytes that this end accepts. A longer one ends the association.
    pub max_message: u32,
    /// Bytes that all messages of which a part has arrived may have together. More end the association.
    pub max_incomplete: usize,
    /// Channels that the peer may have open at a time.
    pub max_peer_channels: usize,
    /// Bytes that all labels and protocols of these channels may have together.
    pub max_peer_names: usize,
}

impl Default for ChannelsConfig {
    /// Ports 5000, 64 KiB towards the peer, 256 KiB from it, 16 MiB in incomplete messages, 4096 channels of the peer with names of 1 MiB.
    fn default() -> Self {
        let association = AssociationConfig::webrtc();
        ChannelsConfig {
            local_port: 5000,
            peer_port: 5000,
            peer_max_message: DEFAULT_MAX_MESSAGE,
            max_message: 256 << 10,
            max_incomplete: DEFAULT_MAX_INCOMPLETE,
            max_peer_channels: 4096,
            max_peer_names: 1 << 20,
            association,
        }
    }
}
