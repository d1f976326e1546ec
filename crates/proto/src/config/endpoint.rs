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
    /// Associations held at most.
    pub max_associations: usize,
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
            max_pending_replies: 1024,
            buffer_memory: 512 << 20,
            timer_granularity: Span::ZERO,
            truth: None,
            answer_out_of_the_blue: true,
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
