//! Settings of an endpoint.

use std::sync::Arc;

use whimbrel_control::{GroundTruth, Span};

use super::SharedConfig;
use crate::{ConfigError, TransportAddr};

/// Settings of an endpoint: one SCTP port with its addresses.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Local SCTP port, 1 to 65535.
    pub local_port: u16,
    /// Local addresses, 1 to 16. All of them are announced to peers.
    pub local_addrs: Vec<TransportAddr>,
    /// Whether peers may open associations.
    pub listen: bool,
    /// Settings of associations that peers open.
    pub association: SharedConfig,
    /// Maximum number of associations that peers have opened and that the user has not taken yet ([`Endpoint::on_taken`]), at least 1. Beyond it,
    /// COOKIE ECHO is discarded, and the peer sends it again (T1-cookie). Absent: no limit.
    ///
    /// [`Endpoint::on_taken`]: crate::Endpoint::on_taken
    pub backlog: Option<usize>,
    /// Whether an association continues if the peer lost its state and opens it again (RFC 9260 §5.2.4 A). Otherwise it ends with
    /// [`CloseReason::PeerRestarted`](crate::CloseReason::PeerRestarted). The new one is accepted like that of any other peer if the endpoint
    /// listens, and otherwise aborted.
    pub continue_after_restart: bool,
    /// Valid.Cookie.Life: how long a state cookie issued by this endpoint is valid.
    pub valid_cookie_life: Span,
    /// Interval at which the key that signs state cookies is replaced. Cookies signed with the previous key remain
    /// valid until the next replacement.
    pub cookie_key_life: Span,
    /// Maximum number of consumed state cookies that are remembered, each until it is stale, so that a recorded COOKIE ECHO cannot open the
    /// association again. One takes about 40 bytes. At the limit, associations with a key ([`AuthConfig`](crate::AuthConfig)) are refused until
    /// cookies become stale. Those without one are remembered up to half of the limit and not refused.
    pub max_consumed_cookies: usize,
    /// Maximum number of associations, including those that this endpoint opens: 1 to 16777216. At the limit, a new
    /// association of a peer is refused (ABORT with the cause Out of Resource; RFC 9260 §5.1), unless an association
    /// without a message is aborted instead, see `first_message_timeout`.
    pub max_associations: usize,
    /// Maximum number of associations that peers at one IP address may have open at a time, at least 1. All addresses
    /// of an IPv6 prefix of 64 bits count as one. The address of the handshake is counted, because it is verified;
    /// further addresses that a peer lists are not.
    pub max_associations_per_address: usize,
    /// Maximum rate, in packets per second from all addresses together, of INIT. As many COOKIE ECHO are processed, and a tenth of other packets
    /// that belong to no association. Packets above it are discarded before their checksum is verified. Absent: no limit.
    pub max_unassociated: Option<u32>,
    /// Maximum rate, in packets per second from one address, of packets that belong to no association: INIT, COOKIE
    /// ECHO and out-of-the-blue packets. Packets above it are discarded before an HMAC is computed or a reply is sent.
    /// An IPv6 prefix of 64 bits counts as one address. Absent: no limit.
    pub max_unassociated_per_address: Option<u32>,
    /// Time within which a peer that opens an association must complete its first message; after it the association is
    /// aborted. At a limit on the number of associations, the association that has been without a message for longest
    /// is aborted in favour of a new one. Absent: no time limit, and new associations are refused at the limit.
    pub first_message_timeout: Option<Span>,
    /// Time without user data after which an association that a peer opened may be aborted in favour of a new one, at a limit on the number of
    /// associations. The least recently active one is aborted. If all associations together are at their limit and an address has at
    /// least two more than that of the new one, the least recently active one of the address with the most is aborted, however active it
    /// is: a few addresses cannot keep out all others. Otherwise an address that has associations replaces its own. Absent: associations with a message are never aborted for a new one.
    pub evict_after: Option<Span>,
    /// Maximum number of queued replies that belong to no association (INIT ACK, ABORT, ...). Further replies are
    /// dropped.
    pub max_pending_replies: usize,
    /// Bytes by which automatic tuning may enlarge the buffers of all associations together beyond their configured
    /// sizes.
    pub buffer_memory: u64,
    /// Maximum delay of the driver's timer. Paced packets are sent in bursts of this duration, because a driver that
    /// sleeps between single packets is too slow. With 0 s packets are released one by one, as in a simulator.
    pub timer_granularity: Span,
    /// The true causes of losses, for discriminators that use them. Only a simulation can provide them.
    pub truth: Option<Arc<dyn GroundTruth>>,
    /// Answer out-of-the-blue packets (RFC 9260 §8.4). Disable it where other stacks share the addresses.
    pub answer_out_of_the_blue: bool,
    /// Also answer packets to SCTP ports other than `local_port`, as out of the blue (RFC 9260 §8.4). For an endpoint
    /// that does not share its addresses, or the UDP ports of its encapsulation, with other stacks.
    pub answer_all_ports: bool,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            local_port: 5000,
            local_addrs: Vec::new(),
            listen: false,
            association: SharedConfig::default(),
            backlog: None,
            continue_after_restart: true,
            valid_cookie_life: Span::from_secs(60),
            cookie_key_life: Span::from_secs(3600),
            max_consumed_cookies: 1 << 18,
            max_associations: 65_536,
            max_associations_per_address: 65_536,
            max_unassociated: None,
            max_unassociated_per_address: None,
            first_message_timeout: None,
            evict_after: None,
            max_pending_replies: 1024,
            buffer_memory: 512 << 20,
            timer_granularity: Span::ZERO,
            truth: None,
            answer_out_of_the_blue: true,
            answer_all_ports: false,
        }
    }
}

/// Maximum number of addresses of an endpoint or a peer.
pub const MAX_ADDRESSES: usize = 16;

impl EndpointConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error that names the first invalid field and the allowed values.
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
        if self.backlog == Some(0) {
            return Err(ConfigError::new("backlog", 0, "allowed is at least 1"));
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
