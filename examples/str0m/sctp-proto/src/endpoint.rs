//! Endpoints.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::association::Association;
use crate::config::{ClientConfig, EndpointConfig, ServerConfig};
use crate::{EcnCodepoint, Transmit};

/// The type of an INIT chunk.
const INIT: u8 = 1;
/// Length of the common header.
const HEADER_LEN: usize = 12;

/// The number of an association.
#[derive(Debug, Copy, Clone, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct AssociationHandle(pub usize);

/// A packet for an association.
#[derive(Debug)]
pub struct AssociationEvent {
    pub(crate) now: Instant,
    pub(crate) data: Bytes,
}

/// News of an association for its endpoint.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// It has ended.
    Drained,
}

/// What a datagram has led to.
#[allow(clippy::large_enum_variant, reason = "sctp-proto has it so, and one exists for a moment")]
pub enum DatagramEvent {
    /// It belongs to an association.
    AssociationEvent(AssociationEvent),
    /// A peer opens an association.
    NewAssociation(Association),
}

/// Why an association was not opened.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is one with the address.
    #[error("an association with this address exists")]
    TooManyAssociations,
    /// The address has no port.
    #[error("invalid remote address: {0}")]
    InvalidRemoteAddress(SocketAddr),
    /// An SCTP port is 0.
    #[error("invalid SCTP port")]
    InvalidSctpPort,
    /// The INIT chunks or the settings cannot be used.
    #[error("{0}")]
    Other(String),
}

/// Leads datagrams to associations, by the address of the peer.
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<EndpointConfig>,
    server: Option<Arc<ServerConfig>>,
    /// The addresses of peers, by the numbers of their associations.
    remotes: Vec<Option<SocketAddr>>,
}

impl Endpoint {
    /// Returns an endpoint. With settings of a server, peers may open associations.
    #[must_use]
    pub fn new(config: Arc<EndpointConfig>, server_config: Option<Arc<ServerConfig>>) -> Self {
        Endpoint {
            config,
            server: server_config,
            remotes: Vec::new(),
        }
    }

    /// Returns none: packets are sent by associations.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        None
    }

    /// Takes in news of an association.
    pub fn handle_event(&mut self, handle: AssociationHandle, event: EndpointEvent) -> Option<AssociationEvent> {
        let EndpointEvent::Drained = event;
        if let Some(remote) = self.remotes.get_mut(handle.0) {
            *remote = None;
        }
        None
    }

    /// Takes in a datagram.
    pub fn handle(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        _local_ip: Option<IpAddr>,
        _ecn: Option<EcnCodepoint>,
        data: Bytes,
    ) -> Option<(AssociationHandle, DatagramEvent)> {
        let event = AssociationEvent { now, data };
        if let Some(index) = self.remotes.iter().position(|known| *known == Some(remote)) {
            return Some((AssociationHandle(index), DatagramEvent::AssociationEvent(event)));
        }
        // Only an INIT opens an association.
        let server = self.server.clone()?;
        if event.data.get(HEADER_LEN) != Some(&INIT) {
            return None;
        }
        let max_payload = self.config.get_max_payload_size();
        let mut association = Association::new(&server.transport, max_payload, remote, false).ok()?;
        association.handle_event(event);
        let handle = self.add(remote);
        Some((handle, DatagramEvent::NewAssociation(association)))
    }

    fn add(&mut self, remote: SocketAddr) -> AssociationHandle {
        let free = self.remotes.iter().position(Option::is_none);
        let index = free.unwrap_or(self.remotes.len());
        if free.is_none() {
            self.remotes.push(None);
        }
        self.remotes[index] = Some(remote);
        AssociationHandle(index)
    }

    /// Opens an association.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened.
    pub fn connect(
        &mut self,
        config: ClientConfig,
        remote: SocketAddr,
    ) -> Result<(AssociationHandle, Association), ConnectError> {
        if remote.port() == 0 {
            return Err(ConnectError::InvalidRemoteAddress(remote));
        }
        let (local_port, remote_port) = config.transport.ports();
        if local_port == 0 || remote_port == 0 {
            return Err(ConnectError::InvalidSctpPort);
        }
        if self.remotes.contains(&Some(remote)) {
            return Err(ConnectError::TooManyAssociations);
        }
        let other = |error: crate::Error| ConnectError::Other(error.to_string());
        let max_payload = self.config.get_max_payload_size();
        let connects = config.inits.is_none();
        let mut association = Association::new(&config.transport, max_payload, remote, connects).map_err(other)?;
        if let Some((local, remote)) = &config.inits {
            association.start(local, remote).map_err(other)?;
        }
        Ok((self.add(remote), association))
    }
}
