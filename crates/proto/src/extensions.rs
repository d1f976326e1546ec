//! Extensions that RFC 9260 does not have and that both ends agree on in INIT and INIT ACK.

use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_wire::{ChunkType, Parameter, error_detection_method};

use crate::config::{ErrorDetection, Resolved};

/// A set of extensions. The cookie carries it as two bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extensions(pub(crate) u16);

impl Extensions {
    /// TIMESTAMP chunks are sent with data, and SACKs return them.
    pub(crate) const TIMESTAMPS: Extensions = Extensions(1);
    /// SACKs echo the congestion that routers indicate.
    pub(crate) const ECI: Extensions = Extensions(2);
    /// NR-SACK chunks replace SACKs.
    pub(crate) const NR_SACK: Extensions = Extensions(4);
    /// NEW GAPS chunks replace SACKs.
    pub(crate) const NEW_GAPS: Extensions = Extensions(8);
    /// SACKs return the timestamps of several packets, so that the sender knows which of them have arrived.
    pub(crate) const REPEATED_TIMESTAMPS: Extensions = Extensions(0x10);

    /// Messages can be given up (RFC 3758).
    pub(crate) const PARTIAL_RELIABILITY: Extensions = Extensions(0x20);
    /// Chunks can be authenticated (RFC 4895).
    pub(crate) const AUTH: Extensions = Extensions(0x40);
    /// Addresses can be added and removed (RFC 5061).
    pub(crate) const DYNAMIC_ADDRESSES: Extensions = Extensions(0x80);
    /// User messages are sent in I-DATA chunks (RFC 8260).
    pub(crate) const INTERLEAVING: Extensions = Extensions(0x100);
    /// Messages in I-DATA chunks can be given up, with I-FORWARD-TSN (RFC 8260 §2.3.1).
    pub(crate) const I_FORWARD_TSN: Extensions = Extensions(0x200);

    /// Streams can be reset and added (RFC 6525).
    pub(crate) const STREAM_CHANGES: Extensions = Extensions(0x400);
    /// This end has offered to accept packets with a checksum of zero, whatever the peer offers (RFC 9653 §5.3).
    pub(crate) const ACCEPTS_ZERO_CHECKSUM: Extensions = Extensions(0x4000);
    /// The peer has offered that for SCTP over DTLS, which this end uses (RFC 9653 §5.2).
    pub(crate) const SENDS_ZERO_CHECKSUM: Extensions = Extensions(0x8000);

    /// Returns the extensions that an end with these settings would use.
    // [8260:2.2.1-5, 2.2.1-6, 2.2.1-7]
    pub(crate) fn wanted(config: &Resolved) -> Extensions {
        let mut wanted = Extensions::default();
        wanted.add(config.parts.timestamps, Extensions::TIMESTAMPS);
        // Only a redundant distribution has to know which transmission of a chunk has arrived.
        let is_redundant = matches!(config.parts.distribution, DistributionSpec::Redundant(_));
        wanted.add(config.parts.timestamps && is_redundant, Extensions::REPEATED_TIMESTAMPS);
        wanted.add(config.parts.eci, Extensions::ECI);
        wanted.add(config.parts.reporting.nr_sack, Extensions::NR_SACK);
        wanted.add(config.parts.reporting.new_gaps_only, Extensions::NEW_GAPS);
        wanted.add(config.partial_reliability, Extensions::PARTIAL_RELIABILITY);
        wanted.add(config.stream_changes, Extensions::STREAM_CHANGES);
        wanted.add(config.interleaving, Extensions::INTERLEAVING);
        let gives_up_interleaved = config.interleaving && config.partial_reliability;
        wanted.add(gives_up_interleaved, Extensions::I_FORWARD_TSN);
        wanted.add(config.offers_auth, Extensions::AUTH);
        wanted.add(config.dynamic_addresses, Extensions::DYNAMIC_ADDRESSES);
        let is_over_dtls = config.zero_checksum == Some(ErrorDetection::Dtls);
        wanted.add(is_over_dtls, Extensions::ACCEPTS_ZERO_CHECKSUM);
        wanted.add(is_over_dtls, Extensions::SENDS_ZERO_CHECKSUM);
        wanted
    }

    pub(crate) fn add(&mut self, condition: bool, extension: Extensions) {
        if condition {
            self.0 |= extension.0;
        }
    }

    pub(crate) fn has(self, extension: Extensions) -> bool {
        self.0 & extension.0 != 0
    }

    /// Returns whether messages can be given up: with the chunk that belongs to the chunks of data (RFC 8260 §2.3.1).
    // [7496:3-1]
    pub(crate) fn gives_up(self) -> bool {
        self.has(if self.has(Extensions::INTERLEAVING) {
            Extensions::I_FORWARD_TSN
        } else {
            Extensions::PARTIAL_RELIABILITY
        })
    }

    /// Returns the extensions of this end that the peer's allow.
    // [9653:5.2-1]
    pub(crate) fn in_common(self, peer: Extensions) -> Extensions {
        // A direction of its own, which needs nothing of the peer.
        Extensions(self.0 & (peer.0 | Extensions::ACCEPTS_ZERO_CHECKSUM.0))
    }

    /// Adds the extensions that a parameter of the peer names.
    pub(crate) fn take(&mut self, parameter: &Parameter<'_>) {
        self.add(*parameter == Parameter::Timestamps, Extensions::TIMESTAMPS);
        self.add(*parameter == Parameter::EciCapable, Extensions::ECI);
        self.add(*parameter == Parameter::NewGaps, Extensions::NEW_GAPS);
        self.add(
            *parameter == Parameter::RepeatedTimestamps,
            Extensions::REPEATED_TIMESTAMPS,
        );
        // A peer may also name the chunk type (RFC 5061 §4.2.7).
        self.add(
            *parameter == Parameter::ForwardTsnSupported,
            Extensions::PARTIAL_RELIABILITY,
        );
        let method = error_detection_method::DTLS;
        self.add(
            *parameter == Parameter::ZeroChecksumAcceptable { method },
            Extensions::SENDS_ZERO_CHECKSUM,
        );
        if let Parameter::SupportedExtensions(types) = parameter {
            self.add(types.contains(&ChunkType::NR_SACK.0), Extensions::NR_SACK);
            let listed = |chunk_type: ChunkType| types.contains(&chunk_type.0);
            let dynamic = listed(ChunkType::ASCONF) && listed(ChunkType::ASCONF_ACK);
            self.add(dynamic, Extensions::DYNAMIC_ADDRESSES);
            self.add(listed(ChunkType::FORWARD_TSN), Extensions::PARTIAL_RELIABILITY);
            // RFC 6525 §5.1.1
            self.add(listed(ChunkType::RE_CONFIG), Extensions::STREAM_CHANGES);
            // RFC 8260 §2.2.1
            self.add(listed(ChunkType::I_DATA), Extensions::INTERLEAVING);
            self.add(listed(ChunkType::I_FORWARD_TSN), Extensions::I_FORWARD_TSN);
        }
    }

    /// Adds the parameters that name the extensions.
    // [6525:5.1.1-1]
    // [9653:4-2, 4-3, 5.1-1]
    pub(crate) fn emit(self, list: &mut Vec<u8>) {
        if self.has(Extensions::TIMESTAMPS) {
            Parameter::Timestamps.emit(list);
        }
        if self.has(Extensions::ECI) {
            Parameter::EciCapable.emit(list);
        }
        if self.has(Extensions::NEW_GAPS) {
            Parameter::NewGaps.emit(list);
        }
        if self.has(Extensions::REPEATED_TIMESTAMPS) {
            Parameter::RepeatedTimestamps.emit(list);
        }
        if self.has(Extensions::PARTIAL_RELIABILITY) {
            Parameter::ForwardTsnSupported.emit(list);
        }
        if self.has(Extensions::ACCEPTS_ZERO_CHECKSUM) {
            let method = error_detection_method::DTLS;
            Parameter::ZeroChecksumAcceptable { method }.emit(list);
        }
        // RFC 5061 §4.2.7: chunks that RFC 9260 does not have, named by type.
        let mut types = Vec::new();
        if self.has(Extensions::AUTH) {
            types.push(ChunkType::AUTH.0);
        }
        if self.has(Extensions::DYNAMIC_ADDRESSES) {
            types.extend([ChunkType::ASCONF.0, ChunkType::ASCONF_ACK.0]);
        }
        if self.has(Extensions::NR_SACK) {
            types.push(ChunkType::NR_SACK.0);
        }
        if self.has(Extensions::PARTIAL_RELIABILITY) {
            types.push(ChunkType::FORWARD_TSN.0);
        }
        if self.has(Extensions::STREAM_CHANGES) {
            types.push(ChunkType::RE_CONFIG.0);
        }
        if self.has(Extensions::INTERLEAVING) {
            types.push(ChunkType::I_DATA.0);
        }
        if self.has(Extensions::I_FORWARD_TSN) {
            types.push(ChunkType::I_FORWARD_TSN.0);
        }
        if !types.is_empty() {
            Parameter::SupportedExtensions(&types).emit(list);
        }
    }
}
