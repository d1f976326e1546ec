//! Settings.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;
use whimbrel_control::Scheme;
use whimbrel_datachannel::{AssociationConfig, init_chunk};

use crate::clock::millis;
use crate::error::Error;

/// The SCTP port of data channels.
pub const DEFAULT_SCTP_PORT: u16 = 5000;

/// Bytes of a packet besides the payload that `max_payload_size` counts: the common header and the header of a DATA chunk.
const HEADERS: u32 = 28;

/// The limit of whimbrel-proto for buffers. str0m bounds what it writes, sctp-proto accepts everything.
const MAX_BUFFER: u32 = 1 << 30;

/// The scheme of associations, if it is not that of [`AssociationConfig::webrtc`].
static SCHEME: OnceLock<Scheme> = OnceLock::new();

/// Sets the scheme of all associations of this program that are opened from now on, by its name: `standard`, `cubic` or another one that
/// `whimbrel schemes` lists. sctp-proto does not have this function: str0m has no setting for it.
///
/// # Errors
/// Returns an error if there is no such scheme, or if another one has been set.
pub fn set_scheme(name: &str) -> Result<(), Error> {
    let scheme = Scheme::by_name(name).ok_or_else(|| Error::Other(format!("there is no scheme {name:?}")))?;
    if *SCHEME.get_or_init(|| scheme) != scheme {
        return Err(Error::Other("another scheme has been set".to_owned()));
    }
    Ok(())
}

/// The settings of an association.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    max_receive_buffer_size: u32,
    max_num_outbound_streams: u16,
    max_num_inbound_streams: u16,
    max_send_message_size: u32,
    max_receive_message_size: u32,
    max_init_retransmits: Option<usize>,
    max_data_retransmits: Option<usize>,
    rto_initial_ms: u64,
    rto_min_ms: u64,
    rto_max_ms: u64,
    local_port: u16,
    remote_port: u16,
}

impl Default for TransportConfig {
    fn default() -> Self {
        TransportConfig {
            max_receive_buffer_size: 1024 * 1024,
            max_num_outbound_streams: u16::MAX,
            max_num_inbound_streams: u16::MAX,
            max_send_message_size: 65536,
            max_receive_message_size: 65536,
            max_init_retransmits: Some(8),
            max_data_retransmits: None,
            rto_initial_ms: 3000,
            rto_min_ms: 1000,
            rto_max_ms: 60000,
            local_port: DEFAULT_SCTP_PORT,
            remote_port: DEFAULT_SCTP_PORT,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $setter:ident: $field:ident: $type:ty,)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $setter(mut self, value: $type) -> Self {
                self.$field = value;
                self
            }
        )*
    };
}

impl TransportConfig {
    setters! {
        /// Sets the receive buffer in bytes.
        with_max_receive_buffer_size: max_receive_buffer_size: u32,
        /// Sets the longest message that is sent.
        with_max_send_message_size: max_send_message_size: u32,
        /// Sets the longest message that is accepted. A longer one ends the association.
        with_max_receive_message_size: max_receive_message_size: u32,
        /// Sets the number of outbound streams.
        with_max_num_outbound_streams: max_num_outbound_streams: u16,
        /// Sets the number of inbound streams.
        with_max_num_inbound_streams: max_num_inbound_streams: u16,
        /// Sets the number of retransmissions of INIT. `None`: no limit. It has no effect if the number for data has no limit.
        with_max_init_retransmits: max_init_retransmits: Option<usize>,
        /// Sets the number of retransmissions of data. `None`: no limit, and none for INIT.
        with_max_data_retransmits: max_data_retransmits: Option<usize>,
        /// Sets RTO.Initial in milliseconds.
        with_rto_initial_ms: rto_initial_ms: u64,
        /// Sets RTO.Min in milliseconds.
        with_rto_min_ms: rto_min_ms: u64,
        /// Sets RTO.Max in milliseconds.
        with_rto_max_ms: rto_max_ms: u64,
        /// Sets the own SCTP port.
        with_local_port: local_port: u16,
        /// Sets the peer's SCTP port.
        with_remote_port: remote_port: u16,
    }

    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.local_port, self.remote_port)
    }

    pub(crate) fn max_send(&self) -> u32 {
        self.max_send_message_size
    }

    pub(crate) fn max_receive(&self) -> u32 {
        self.max_receive_message_size
    }

    /// Returns Whimbrel's settings of an association whose packets carry this much user data each.
    pub(crate) fn association(&self, max_payload: u32) -> AssociationConfig {
        let mut config = AssociationConfig::webrtc();
        if let Some(scheme) = SCHEME.get() {
            config.scheme = *scheme;
        }
        // sctp-proto does not have it. Without it, the other end sees the chunks that it knows.
        config.interleaving = false;
        // The limits of the two directions differ, and the adapter checks both.
        config.max_message = None;
        config.recv_buffer = self.max_receive_buffer_size.clamp(1500, MAX_BUFFER);
        config.send_buffer = MAX_BUFFER;
        config.outbound_streams = self.max_num_outbound_streams.max(1);
        config.max_inbound_streams = self.max_num_inbound_streams.max(1);
        config.rto_max = millis(self.rto_max_ms.max(1));
        config.rto_min = millis(self.rto_min_ms.max(1)).min(config.rto_max);
        config.rto_initial = Some(millis(self.rto_initial_ms).clamp(config.rto_min, config.rto_max));
        config.unlimited_retransmissions = self.max_data_retransmits.is_none();
        let limit = |value: Option<usize>| value.map_or(255, |value| value.min(255) as u32);
        config.association_max_retrans = limit(self.max_data_retransmits);
        config.path_max_retrans = limit(self.max_data_retransmits);
        config.max_init_retransmits = limit(self.max_init_retransmits);
        let packet = max_payload.saturating_add(HEADERS).clamp(492, 65515);
        config.set_packet_len(packet as u16);
        config
    }
}

/// The settings of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    max_payload_size: u32,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig { max_payload_size: 1200 }
    }
}

impl EndpointConfig {
    /// Returns the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the bytes of user data in a packet, at least 464.
    pub fn max_payload_size(&mut self, value: u32) -> &mut Self {
        self.max_payload_size = value;
        self
    }

    /// Returns the bytes of user data in a packet.
    #[must_use]
    pub fn get_max_payload_size(&self) -> u32 {
        self.max_payload_size
    }
}

/// The settings of associations that peers open.
#[derive(Debug, Clone, Default)]
pub struct ServerConfig {
    /// The settings of the association.
    pub transport: Arc<TransportConfig>,
}

impl ServerConfig {
    /// Returns the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The settings of an association that this end opens.
#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    /// The settings of the association.
    pub transport: Arc<TransportConfig>,
    pub(crate) inits: Option<(Bytes, Bytes)>,
}

impl ClientConfig {
    /// Returns the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the association from the INIT chunks of both ends, without a handshake.
    #[must_use]
    pub fn with_snap(mut self, local: Bytes, remote: Bytes) -> Self {
        self.inits = Some((local, remote));
        self
    }
}

/// Returns an INIT chunk for [`ClientConfig::with_snap`].
///
/// # Errors
/// Returns an error if the system has no random numbers, or if the settings are invalid.
pub fn generate_snap_token(config: &TransportConfig) -> Result<Bytes, Error> {
    let config = config.association(EndpointConfig::default().max_payload_size);
    let init = init_chunk(&config, &mut random()?).map_err(Error::other)?;
    Ok(init.into())
}

/// Returns a cryptographically secure generator.
pub(crate) fn random() -> Result<ChaCha12Rng, Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(Error::other)?;
    Ok(ChaCha12Rng::from_seed(seed))
}
