//! Settings of an endpoint.

use std::sync::Arc;

use whimbrel_control::{GroundTruth, Span};

use super::AssociationConfig;
use crate::{ConfigError, TransportAddr};

/// Settings of an endpoint: one SCTP port with its addresses.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Our SCTP port, 1 to 65535.
    pub local_port: u16,
    /// Our addresses, all of which are announced to peers; 1 to 16.
    pub local_addrs: Vec<TransportAddr>,
    /// Whether peers may open associations.
    pub listen: bool,
    /// Settings of associations that peers open.
    pub association: AssociationConfig,
    /// Valid.Cookie.Life: how long a state cookie of ours may be used.
    pub valid_cookie_life: Span,
    /// How often the key that signs state cookies is replaced; the one before it is honoured for a cookie's life.
    pub cookie_key_life: Span,
    /// Associations held at most, those that we open included: 1 to 16777216. A peer that would open another is refused (ABORT, Out of
    /// Resource; RFC 9260 §5.1) unless a silent one gives way, see `first_message_timeout`.
    pub max_associations: usize,
    /// Associations that peers at one IP address may have opened at a time, at least 1; all addresses of an IPv6 prefix of 64 bits count
    /// as one. Counted is the address that the handshake came from, which is verified; others that a peer lists are not.
    pub max_associations_per_address: usize,
    /// Packets per second from one address that belong to no association and are processed: INIT, COOKIE ECHO, and what is out of the blue.
    /// More are discarded before they cost an HMAC or an answer. An IPv6 prefix of 64 bits is one address. Absent: no limit.
    pub max_unassociated_per_address: Option<u32>,
    /// Time in which a peer that opens an association has to complete its first message; later the association is aborted. And where a
    /// limit on the number of associations is reached, the one that has been without a message for longest gives way to a new one.
    /// Absent: peers may stay silent, and new associations are refused at the limit.
    pub first_message_timeout: Option<Span>,
    /// Replies without an association (INIT ACK, ABORT, ...) waiting to be sent at most; more are dropped.
    pub max_pending_replies: usize,
    /// Bytes by which automatic tuning may enlarge the buffers of all associations together beyond their configured sizes.
    pub buffer_memory: u64,
    /// How late the driver's timer may be. Paced packets leave in bursts of this duration, because a driver that slept between single
    /// packets would be too slow; 0 s releases single packets, as a simulator can.
    pub timer_granularity: Span,
    /// The truth about losses, for discriminators that may ask for it: only a simulation has it.
    pub truth: Option<Arc<dyn GroundTruth>>,
    /// Answer packets that belong to no association (RFC 9260 §8.4). Off where other stacks share the addresses.
    pub answer_out_of_the_blue: bool,
    /// Answer packets to other SCTP ports than `local_port` as well, as out of the blue (RFC 9260 §8.4). For an endpoint that
    /// has its addresses, or the UDP ports of its encapsulation, to itself.
    pub answer_all_ports: bool,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            local_port: 5000,
            local_addrs: Vec::new(),
            listen: false,
            association: AssociationConfig::default(),
            valid_cookie_life: Span::from_secs(60),
            cookie_key_life: Span::from_secs(3600),
            max_associations: 65_536,
            max_associations_per_address: 65_536,
            max_unassociated_per_address: None,
            first_message_timeout: None,
            max_pending_replies: 1024,
            buffer_memory: 512 << 20,
            timer_granularity: Span::ZERO,
            truth: None,
            answer_out_of_the_blue: true,
            answer_all_ports: false,
        }
    }
}

/// Addresses an endpoint or a peer may have.
pub const MAX_ADDRESSES: usize = 16;

impl EndpointConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first field that cannot work, with what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.local_port == 0 {
            return Err(ConfigError::new("local_port", 0, "allowed are 1 to 65535"));
        }
        if self.local_addrs.is_empty() || self.local_addrs.len() > MAX_ADDRESSES {
            return Err(ConfigError::new(
                "local_addrs",
                self.local_addrs.len(),
                format!("allowed are 1 to {MAX_ADDRESSES} addresses"),
            ));
        }
        if let Some(addr) = self
            .local_addrs
            .iter()
            .find(|a| a.ip().is_unspecified() || a.ip().is_multicast())
        {
            return Err(ConfigError::new(
                "local_addrs",
                addr,
                "allowed are unicast addresses of this host",
            ));
        }
        if self.valid_cookie_life.is_zero() || self.cookie_key_life < self.valid_cookie_life {
            return Err(ConfigError::new(
                "cookie_key_life",
                self.cookie_key_life,
                format!(
                    "allowed is at least valid_cookie_life, {}, which is above 0 s",
                    self.valid_cookie_life
                ),
            ));
        }
        if self.max_associations == 0 || self.max_associations > 1 << 24 {
            return Err(ConfigError::new(
                "max_associations",
                self.max_associations,
                "allowed are 1 to 16777216",
            ));
        }
        if self.max_associations_per_address == 0 {
            return Err(ConfigError::new(
                "max_associations_per_address",
                0,
                "allowed is at least 1",
            ));
        }
        if self.first_message_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(ConfigError::new(
                "first_message_timeout",
                Span::ZERO,
                "allowed is more than 0 s",
            ));
        }
        self.association.validate()?;
        self.association.validate_truth(self.truth.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_needs_an_address_and_a_port() {
        let mut config = EndpointConfig::default();
        assert_eq!(config.validate().unwrap_err().field, "local_addrs");
        config.local_addrs.push("0.0.0.0:0".parse().unwrap());
        assert_eq!(config.validate().unwrap_err().field, "local_addrs");
        config.local_addrs[0] = "10.0.0.1:0".parse().unwrap();
        config.validate().unwrap();
        config.local_port = 0;
        assert_eq!(config.validate().unwrap_err().field, "local_port");
    }
}
