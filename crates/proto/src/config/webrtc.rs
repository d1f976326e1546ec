//! The settings of associations that carry WebRTC data channels.

use whimbrel_control::{Scheme, Span};

use super::{AssociationConfig, ErrorDetection, Scheduler};

/// Length in bytes of an IPv4 header, which the path MTU includes.
const IPV4_HEADER_LEN: u16 = 20;

/// The longest SCTP packet in bytes of which each network is expected to carry the DTLS record: 1280 bytes, the minimum MTU of IPv6, without
/// the headers of IPv6 and UDP and with room for DTLS and for the channel data of TURN.
const PACKET_LEN: u16 = 1180;

/// The longest message in bytes: what browsers accept.
const MAX_MESSAGE: u32 = 256 << 10;

impl AssociationConfig {
    /// Returns the settings of an association that carries WebRTC data channels (RFC 8831): over DTLS (RFC 8261), which ICE leads over one
    /// path at a time.
    ///
    /// - Packets have at most 1180 bytes ([`set_packet_len`](Self::set_packet_len)): no probe of the path MTU is sent, and no heartbeat.
    /// - It never gives up: ICE decides whether the peer can be reached.
    /// - It offers partial reliability (RFC 3758), stream resets (RFC 6525), interleaving (RFC 8260), and to accept packets without a CRC32c
    ///   (RFC 9653).
    /// - It has 65535 streams in each direction (RFC 8831 §6.2), and messages of up to 256 KiB in both directions. What a stream has in the
    ///   send buffer is counted.
    /// - Its scheme is `whimbrel`, which distinguishes transmission losses from congestion.
    ///
    /// The address of the peer is a name only: any address of IPv4 without a UDP port will do, the same in each packet.
    #[must_use]
    pub fn webrtc() -> Self {
        let mut config = AssociationConfig {
            single_homed: true,
            unlimited_retransmissions: true,
            stream_buffers: true,
            outbound_streams: u16::MAX,
            max_inbound_streams: u16::MAX,
            max_message: Some(MAX_MESSAGE),
            hb_interval: Span::ZERO,
            partial_reliability: true,
            stream_changes: true,
            interleaving: true,
            // RFC 8831 §6.4: the weight is the priority of the channel.
            scheduler: Scheduler::WeightedFair,
            zero_checksum: Some(ErrorDetection::Dtls),
            scheme: Scheme::by_name("whimbrel").unwrap_or_default(),
            // DTLS carries no marks.
            ecn: Some(false),
            ..AssociationConfig::default()
        };
        config.set_packet_len(PACKET_LEN);
        config
    }

    /// Sets the length in bytes of the longest packet, with the common header of SCTP and without the headers of other layers: 492 to 65515. It
    /// is right for a peer whose address is one of IPv4 without a UDP port.
    pub fn set_packet_len(&mut self, bytes: u16) {
        self.mtu = bytes.saturating_add(IPV4_HEADER_LEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::path::pmdcs;

    // RFC 9260 §3: the common header has 12 bytes.
    #[test]
    fn the_settings_are_valid_and_a_packet_has_the_length_that_was_set() {
        let mut config = AssociationConfig::webrtc();
        config.validate().unwrap();
        let peer = "192.0.2.1:0".parse().unwrap();
        assert_eq!(pmdcs(config.mtu, peer), 1180 - 12);
        config.set_packet_len(900);
        config.validate().unwrap();
        assert_eq!(pmdcs(config.mtu, peer), 900 - 12);
    }
}
