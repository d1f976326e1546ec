//! Opening associations.

use std::sync::Arc;

use whimbrel_control::Time;

use super::{Endpoint, context};
use crate::AssocId;
use crate::address::TransportAddr;
use crate::association::{Association, Identity};
use crate::config::{AssociationConfig, MAX_ADDRESSES, Resolved};
use crate::context::Context;
use crate::error::ConnectError;
use crate::send::{candidates, extra_pairs};

impl Endpoint {
    /// Opens an association with the peer at these addresses and this SCTP port. The first address becomes the primary
    /// path.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid, if an address is unusable, if an association with one of the
    /// addresses exists, if the peer would be this endpoint itself, or if the endpoint has
    /// [`EndpointConfig::max_associations`](crate::EndpointConfig::max_associations) associations.
    // [9260:1.3-1, 6.4.1-2]
    pub fn connect(
        &mut self,
        now: Time,
        config: AssociationConfig,
        peer_port: u16,
        peer: &[TransportAddr],
    ) -> Result<AssocId, ConnectError> {
        let peer = &peer[..peer.len().min(MAX_ADDRESSES)];
        self.check_peer(&config, peer_port, peer)?;
        let mut pairs = Vec::with_capacity(peer.len());
        for (index, &remote) in peer.iter().enumerate() {
            if peer[..index].contains(&remote) {
                continue;
            }
            let mut candidates = candidates(&self.local_addrs, remote);
            let count = candidates.clone().count();
            let local = candidates
                .nth(index % count.max(1))
                .ok_or(ConnectError::NoLocalAddress(remote))?;
            pairs.push((local, remote));
        }
        if config.path_per_local_address {
            pairs.extend(extra_pairs(&self.local_addrs, &pairs));
        }
        let id = self.table.next_id();
        let identity = Identity {
            id,
            config: self.resolve(config),
            local_addrs: self.local_addrs.clone(),
            local_port: self.config.local_port,
            peer_port,
            truth: self.config.truth.clone(),
        };
        let tag = self.new_tag();
        let association = Association::open(context!(self, now), identity, tag, pairs.into_iter());
        self.table.insert(association);
        self.after_change(id.index);
        Ok(id)
    }

    /// Checks that an association with these settings may be opened to these addresses.
    pub(super) fn check_peer(
        &self,
        config: &AssociationConfig,
        peer_port: u16,
        peer: &[TransportAddr],
    ) -> Result<(), ConnectError> {
        config.validate()?;
        config.validate_truth(self.config.truth.is_some())?;
        if peer.is_empty() {
            return Err(ConnectError::NoAddress);
        }
        if self.table.live() >= self.config.max_associations {
            return Err(ConnectError::TooMany);
        }
        if let Some(own) = peer.iter().find(|addr| self.local_addrs.contains(addr))
            && peer_port == self.config.local_port
        {
            return Err(ConnectError::Own(*own));
        }
        match peer
            .iter()
            .find(|&&remote| self.table.by_peer(remote, peer_port).is_some())
        {
            Some(&remote) => Err(ConnectError::Exists(remote)),
            None => Ok(()),
        }
    }

    /// Returns the settings with all that follows from them, shared with accepted associations if they are the same.
    pub(super) fn resolve(&self, config: AssociationConfig) -> Arc<Resolved> {
        if config == **self.accepted_config {
            self.accepted_config.clone()
        } else {
            Arc::new(Resolved::new(config))
        }
    }
}
