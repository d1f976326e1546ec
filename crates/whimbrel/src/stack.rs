//! A stack of one SCTP port on sockets of UDP or raw IP, and its listening form.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use rand_core::Rng;
use tokio::task::AbortHandle;
use whimbrel_proto::{Discard, Endpoint, EndpointConfig};

use crate::association::Association;
use crate::driver::Driver;
use crate::environment::{self, Environment};
use crate::interface;
use crate::shared::{Progress, Shared, SocketChange};
use crate::trace::{Trace, TraceKinds};
use crate::transport::{Ports, Socket, Transport, Trouble};
use crate::{
    AddressChange, AddressError, AddressWatch, AssociationError, BindError, CloseReason, ConnectError, Message,
    StackConfig,
};

/// How often a UDP port that the system chose for the first address may turn out to be taken on another.
const PORT_ATTEMPTS: usize = 32;

/// UDP sockets, one SCTP port and the associations on them. Clones share all of that.
#[derive(Clone, Debug)]
pub struct Stack {
    handle: Arc<StackHandle>,
}

#[derive(Debug)]
struct StackHandle {
    shared: Arc<Shared>,
    local: Vec<SocketAddr>,
    /// With the SCTP port that was chosen if it was to be.
    config: StackConfig,
    transport: Arc<dyn Transport>,
    /// Tasks that follow the addresses of the host.
    followers: Mutex<Vec<AbortHandle>>,
}

/// A [`Stack`] whose peers may open associations.
#[derive(Debug)]
pub struct Listener {
    stack: Stack,
}

impl Stack {
    /// Binds the sockets and starts the driver, within a tokio runtime that has I/O and time enabled. Peers cannot open associations to this
    /// stack.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid, if an address cannot be bound, or outside a tokio runtime.
    pub fn bind(config: StackConfig) -> Result<Self, BindError> {
        Self::start(config, false)
    }

    /// As [`bind`](Self::bind); where the configuration names no local address, those are taken from which the routing table
    /// reaches the peer's addresses.
    pub fn toward(mut config: StackConfig, peer: &[SocketAddr]) -> Result<Self, BindError> {
        if config.local.is_empty() {
            let transport = environment::transport(&config);
            for addr in peer.iter().copied().map(interface::canonical) {
                let ip = transport.source_toward(addr).map_err(|source| match addr {
                    SocketAddr::V6(_) if !interface::has_ipv6() => BindError::NoIpv6(addr),
                    _ => BindError::NoRoute { addr, source },
                })?;
                let local = interface::with_scope(ip, 0, addr);
                if !config.local.contains(&local) {
                    config.local.push(local);
                }
            }
        }
        Self::bind(config)
    }

    fn start(mut config: StackConfig, listen: bool) -> Result<Self, BindError> {
        config.require_checksums()?;
        environment::in_runtime()?;
        let Environment {
            transport,
            clock,
            mut random,
            granularity,
        } = Environment::find(&config)?;
        let sockets = bind_at_port(&*transport, &mut config, &mut random)?;
        let local: Vec<SocketAddr> = sockets.iter().map(|socket| socket.local_addr()).collect();
        let granted = |socket: &dyn Socket| {
            let (recv, send) = socket.buffers()?;
            Some((socket.local_addr(), recv, send))
        };
        let granted = sockets.iter().filter_map(|socket| granted(&**socket)).collect();
        let endpoint_config = EndpointConfig {
            local_port: config.port,
            local_addrs: local.clone(),
            listen,
            association: config.association.clone().into(),
            backlog: Some(config.backlog),
            continue_after_restart: config.continue_after_restart,
            buffer_memory: config.buffer_memory,
            max_associations: config.max_associations,
            max_associations_per_address: config.max_associations_per_address,
            max_unassociated: config.max_unassociated,
            max_unassociated_per_address: config.max_unassociated_per_address,
            first_message_timeout: config.first_message_timeout,
            evict_after: config.evict_after,
            answer_all_ports: config.answer_all_ports.unwrap_or(transport.ports() == Ports::All),
            timer_granularity: granularity,
            ..EndpointConfig::default()
        };
        let endpoint = Endpoint::new(endpoint_config, Box::new(random))?;
        let shared = Arc::new(Shared::new(endpoint, clock, listen, config.buffer_memory));
        {
            let mut state = shared.lock();
            state.handles = 1;
            state.local.clone_from(&local);
            state.socket_buffers = granted;
        }
        let sockets = sockets.into_iter().map(Arc::from).collect();
        tokio::spawn(Driver::new(shared.clone(), sockets).run());
        Ok(Stack {
            handle: Arc::new(StackHandle {
                shared,
                local,
                config,
                transport,
                followers: Mutex::default(),
            }),
        })
    }

    /// Begins to accept associations of peers, on the same sockets and SCTP port, with the configuration of this stack. `None` if the stack has
    /// a listener already.
    ///
    /// # Examples
    ///
    /// ```
    /// # use whimbrel::{Stack, StackConfig};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let stack = Stack::bind(StackConfig::local(["127.0.0.1:0".parse()?]))?;
    /// let listener = stack.listen().ok_or("no other listener")?;
    /// assert!(stack.listen().is_none());
    /// drop(listener);
    /// assert!(stack.listen().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen(&self) -> Option<Listener> {
        let starts = self.handle.shared.lock().start_accepting();
        starts.then(|| Listener { stack: self.clone() })
    }

    /// Opens an association with the SCTP port `port` at any of the addresses `peer` (IP address and UDP port each, port 0 over
    /// [`RawIp`](crate::RawIp)); waits until it is established.
    ///
    /// Between two SCTP ports of two hosts there is one association (RFC 9260 §1.3), and a stack has one port: further associations with the
    /// same peer need a stack each. An association has many streams, which often serve as well.
    ///
    /// # Errors
    /// Returns an error if the addresses cannot be used, if an association with the peer exists, if the addresses are those of this stack, or if
    /// the peer refuses, is unreachable or does not answer.
    ///
    /// # Cancel safety
    /// If the returned future is dropped before it is ready, the attempt is given up, and nothing of it is left.
    pub async fn connect(&self, peer: &[SocketAddr], port: u16) -> Result<Association, ConnectError> {
        self.connect_and_send(peer, port, []).await
    }

    /// As [`connect`](Self::connect), with messages that are sent as soon as possible: as many as fit go with the third packet of the
    /// handshake, the COOKIE ECHO (RFC 9260 §5.1). With [`interleaving`](crate::AssociationConfig::interleaving) on, they are sent after the
    /// handshake: only then do the ends know which chunks to use.
    ///
    /// # Errors
    /// Also if one of them cannot be taken.
    ///
    /// # Cancel safety
    /// If the returned future is dropped before it is ready, the attempt is aborted. The peer may have received the messages.
    pub async fn connect_and_send(
        &self,
        peer: &[SocketAddr],
        port: u16,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<Association, ConnectError> {
        let peer = &peer.iter().copied().map(interface::canonical).collect::<Vec<_>>()[..];
        if self.handle.transport.ports() == Ports::None
            && let Some(addr) = peer.iter().find(|addr| addr.port() != 0)
        {
            return Err(ConnectError::HasPort(*addr));
        }
        let shared = &self.handle.shared;
        let now = shared.now();
        let association = {
            let mut state = shared.lock();
            if let Some(why) = &state.stopped {
                return Err(AssociationError::StackStopped(why.clone()).into());
            }
            let id = state
                .endpoint
                .connect(now, self.handle.config.association.clone(), port, peer)?;
            for message in messages {
                if let Err(error) = state.endpoint.send(now, id, message) {
                    state.endpoint.abort(now, id, "");
                    return Err(AssociationError::from(error).into());
                }
            }
            let signals = state.insert(now, id, Progress::Connecting, peer);
            state.wake_driver();
            Association::new(&mut state, shared.clone(), id, signals)
        };
        match association.wait_established().await {
            Ok(()) => Ok(association),
            Err(error) => Err(explain(error, &association.troubles())),
        }
    }

    /// Binds a socket to another local address, as when a host comes into another network, and asks the peers of all associations to use
    /// it too (RFC 5061); associations without dynamic addresses keep what they have. UDP port 0 takes that of the first socket, which
    /// peers assume. Returns the address as it was bound. Has to be called within the tokio runtime of the stack.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound or is one too many, if the stack has stopped, or outside a tokio runtime.
    pub fn add_local_address(&self, addr: SocketAddr) -> Result<SocketAddr, BindError> {
        environment::in_runtime()?;
        let shared = &self.handle.shared;
        let now = shared.now();
        let mut state = shared.lock();
        if let Some(why) = &state.stopped {
            return Err(BindError::StackStopped(why.clone()));
        }
        let port = state.local.first().map_or(0, SocketAddr::port);
        let mut addr = interface::canonical(addr);
        if addr.port() == 0 && self.handle.transport.ports() == Ports::All {
            addr.set_port(port);
        }
        // Its socket may still be there.
        let leaving = state.leaving.iter().position(|leaving| *leaving == addr);
        if leaving.is_none() {
            let socket = bind_socket(&*self.handle.transport, addr, &self.handle.config)?;
            state.changes.push_back(SocketChange::Add(Arc::from(socket)));
        }
        let mut local = state.local.clone();
        local.push(addr);
        if let Err(error) = state.endpoint.set_local_addrs(&local) {
            if leaving.is_none() {
                state.changes.push_back(SocketChange::Remove(addr));
                state.wake_driver();
            }
            return Err(error.into());
        }
        if let Some(place) = leaving {
            state.leaving.remove(place);
        }
        state.local = local;
        let ids: Vec<_> = state.endpoint.associations().collect();
        for id in ids {
            let _ = state.endpoint.add_local_address(now, id, addr);
        }
        state.wake_driver();
        Ok(addr)
    }

    /// Gives up a local address, as when a host leaves a network: nothing is sent from it any more, and peers are asked not to send to
    /// it. Its socket is closed when all of them know. Associations that have no other address keep it.
    ///
    /// # Errors
    /// If the stack has no such address, or no other one.
    pub fn remove_local_address(&self, addr: SocketAddr) -> Result<(), AddressError> {
        let shared = &self.handle.shared;
        let now = shared.now();
        let mut state = shared.lock();
        if !state.local.contains(&addr) {
            return Err(AddressError::Unknown(addr));
        }
        let local: Vec<_> = state.local.iter().copied().filter(|known| *known != addr).collect();
        if local.is_empty() || state.endpoint.set_local_addrs(&local).is_err() {
            return Err(AddressError::Last);
        }
        state.local = local;
        let ids: Vec<_> = state.endpoint.associations().collect();
        for id in ids {
            let _ = state.endpoint.remove_local_address(now, id, addr);
        }
        state.leaving.push(addr);
        state.close_unused();
        Ok(())
    }

    /// Follows the addresses of this host from now on: adds those that come and removes those that go, if `wanted` returns true for them. Linux
    /// only, within a tokio runtime. It ends with the stack, or when the returned handle is aborted. An address that cannot be bound or removed
    /// is left as it is: the last one stays.
    ///
    /// # Errors
    /// Returns an error if the system cannot report changes, on a node of a simulation, or outside a tokio runtime.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn roam(stack: &whimbrel::Stack) -> std::io::Result<()> {
    /// // Every IPv4 address except loopback.
    /// stack.follow_addresses(|ip| ip.is_ipv4() && !ip.is_loopback())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow_addresses(&self, wanted: impl Fn(IpAddr) -> bool + Send + 'static) -> std::io::Result<AbortHandle> {
        #[cfg(feature = "simulated")]
        if crate::simulated::current().is_some() {
            return Err(std::io::ErrorKind::Unsupported.into());
        }
        let mut watch = AddressWatch::new()?;
        let weak = Arc::downgrade(&self.handle);
        let follow = async move {
            while let Ok(change) = watch.next().await {
                let Some(handle) = weak.upgrade() else { return };
                let stack = Stack { handle };
                match change {
                    AddressChange::Added(ip) if wanted(ip) => {
                        let _ = stack.add_local_address(SocketAddr::new(ip, 0));
                    }
                    AddressChange::Removed(ip) if wanted(ip) => {
                        let addrs = stack.handle.shared.lock().local.clone();
                        for addr in addrs.into_iter().filter(|addr| addr.ip() == ip) {
                            let _ = stack.remove_local_address(addr);
                        }
                    }
                    _ => {}
                }
            }
        };
        let task = tokio::spawn(follow).abort_handle();
        let followers = &self.handle.followers;
        followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task.clone());
        Ok(task)
    }

    /// The local addresses with the UDP ports that were bound at first; [`Association::local_addrs`] returns the current ones.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.handle.local
    }

    /// Starts to record what the protocol does on all associations, for [`Trace::drain`]. If more than `limit` records wait, further ones
    /// are lost. Only one trace of a stack may exist at a time.
    pub fn trace(&self, kinds: TraceKinds, limit: usize) -> Trace {
        Trace::new(self.handle.shared.clone(), kinds, limit)
    }

    /// The sockets bound at first, with the bytes that the system has granted for the receive buffer and for the send buffer of each.
    /// Linux counts its own overhead, too, and reports twice what was asked for.
    pub fn socket_buffers(&self) -> Vec<(SocketAddr, usize, usize)> {
        self.handle.shared.lock().socket_buffers.clone()
    }

    /// The SCTP port.
    pub fn port(&self) -> u16 {
        self.handle.config.port
    }

    /// How many datagrams, or chunks in them, were not processed, by reason.
    pub fn discarded(&self) -> Vec<(Discard, u64)> {
        self.handle
            .shared
            .lock()
            .discards
            .iter()
            .map(|(reason, count)| (*reason, *count))
            .collect()
    }

    /// How many encrypted associations of peers ended before one of their packets could be opened: the peers have other keys, or forge their
    /// addresses.
    pub fn unproven(&self) -> u64 {
        self.handle.shared.lock().endpoint.stats().unproven
    }

    /// How many associations there are, those included that are over and have not been read to the end.
    pub fn associations(&self) -> usize {
        self.handle.shared.lock().endpoint.associations().count()
    }

    /// Bytes of memory that received data takes, of all associations: never much above [`StackConfig::buffer_memory`].
    pub fn receive_memory(&self) -> u64 {
        self.handle.shared.lock().memory()
    }

    /// Waits until every association has ended, so that the last packets of a shutdown are sent before a program ends.
    ///
    /// # Cancel safety
    /// The returned future only waits. Dropping it changes nothing.
    pub async fn wait_idle(&self) {
        let shared = &self.handle.shared;
        loop {
            let gone = shared.idle.notified();
            tokio::pin!(gone);
            gone.as_mut().enable();
            {
                let state = shared.lock();
                if state.is_idle() || state.stopped.is_some() {
                    return;
                }
            }
            gone.await;
        }
    }
}

impl Listener {
    /// Binds the sockets and listens, within a tokio runtime.
    ///
    /// # Errors
    /// As [`Stack::bind`].
    pub fn bind(config: StackConfig) -> Result<Self, BindError> {
        Ok(Listener {
            stack: Stack::start(config, true)?,
        })
    }

    /// The stack below, which may open associations too.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Waits for the next association that a peer has established.
    ///
    /// # Errors
    /// Returns an error if the stack has stopped.
    ///
    /// # Cancel safety
    /// No association is lost if the returned future is dropped before it is ready.
    pub async fn accept(&self) -> Result<Association, AssociationError> {
        let shared = &self.stack.handle.shared;
        loop {
            let incoming = shared.incoming.notified();
            tokio::pin!(incoming);
            incoming.as_mut().enable();
            {
                let mut state = shared.lock();
                while let Some(id) = state.next_incoming() {
                    if let Some(slot) = state.slots.get(&id) {
                        let signals = slot.signals.clone();
                        return Ok(Association::new(&mut state, shared.clone(), id, signals));
                    }
                }
                if let Some(why) = &state.stopped {
                    return Err(AssociationError::StackStopped(why.clone()));
                }
            }
            incoming.await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let shared = &self.stack.handle.shared;
        let now = shared.now();
        shared.lock().stop_accepting(now);
    }
}

impl Drop for StackHandle {
    fn drop(&mut self) {
        let followers = self.followers.get_mut().unwrap_or_else(PoisonError::into_inner);
        followers.iter().for_each(AbortHandle::abort);
        let mut state = self.shared.lock();
        state.handles -= 1;
        state.wake_driver();
    }
}

/// Binds the sockets at the SCTP port of the configuration. If that is 0, sets it to a random one.
fn bind_at_port(
    transport: &dyn Transport,
    config: &mut StackConfig,
    random: &mut impl Rng,
) -> Result<Vec<Box<dyn Socket>>, BindError> {
    if config.port != 0 {
        return bind_all(transport, config);
    }
    let mut attempt = 1;
    loop {
        // RFC 6335 §6: the dynamic ports.
        config.port = 49_152 + (random.next_u32() % 16_384) as u16;
        match bind_all(transport, config) {
            // Another stack of this host has it.
            Err(BindError::Raw { source, .. })
                if source.kind() == std::io::ErrorKind::AddrInUse && attempt < PORT_ATTEMPTS =>
            {
                attempt += 1;
            }
            other => return other,
        }
    }
}

/// Binds a socket to each address. All share one UDP port where the configuration leaves the choice: the addresses that an
/// INIT lists carry no UDP port, so the peer assumes the one that the INIT came from.
// [9260:1.3-2]
// [9260:1.3-3]
fn bind_all(transport: &dyn Transport, config: &StackConfig) -> Result<Vec<Box<dyn Socket>>, BindError> {
    let mut addrs = Vec::new();
    for &addr in &config.local {
        let expanded = interface::expand(addr, transport);
        if expanded.is_empty() {
            return Err(BindError::NoAddress(addr));
        }
        addrs.extend(
            expanded
                .into_iter()
                .filter(|addr| !addrs.contains(addr))
                .collect::<Vec<_>>(),
        );
    }
    let mut attempt = 1;
    loop {
        match bind_once(transport, &addrs, config) {
            Err(BindError::Bind { addr, source })
                if addr.port() != 0 && config.local.iter().all(|a| a.port() == 0) && attempt < PORT_ATTEMPTS =>
            {
                // The port that was free on the first address is taken on another one.
                let _ = source;
                attempt += 1;
            }
            other => return other,
        }
    }
}

fn bind_socket(
    transport: &dyn Transport,
    addr: SocketAddr,
    config: &StackConfig,
) -> Result<Box<dyn Socket>, BindError> {
    transport.bind(addr, config).map_err(|source| {
        if addr.is_ipv6() && !interface::has_ipv6() {
            BindError::NoIpv6(addr)
        } else if addr.port() != 0 || transport.ports() == Ports::All {
            BindError::Bind { addr, source }
        } else {
            let addr = addr.ip();
            BindError::Raw { addr, source }
        }
    })
}

fn bind_once(
    transport: &dyn Transport,
    addrs: &[SocketAddr],
    config: &StackConfig,
) -> Result<Vec<Box<dyn Socket>>, BindError> {
    let mut sockets: Vec<Box<dyn Socket>> = Vec::new();
    for &addr in addrs {
        let mut addr = addr;
        if addr.port() == 0 && transport.ports() == Ports::All {
            addr.set_port(sockets.first().map_or(0, |first| first.local_addr().port()));
        }
        sockets.push(bind_socket(transport, addr, config)?);
    }
    Ok(sockets)
}

/// Turns the end of an association that was being set up into the error that its user can act on.
fn explain(error: AssociationError, troubles: &[(SocketAddr, Option<Trouble>)]) -> ConnectError {
    let has = |wanted| troubles.iter().any(|(_, trouble)| *trouble == Some(wanted));
    // Addresses of raw IP have no port.
    let name = |addr: &SocketAddr| match addr.port() {
        0 => addr.ip().to_string(),
        _ => addr.to_string(),
    };
    let addrs: Vec<String> = troubles.iter().map(|(addr, _)| name(addr)).collect();
    let addrs = addrs.join(", ");
    let said = troubles.iter().all(|(_, trouble)| trouble.is_some());
    match error {
        AssociationError::Closed(CloseReason::AbortedLocally(_)) if said && has(Trouble::PortUnreachable) => {
            ConnectError::Refused(format!("no program listens on UDP {addrs}"))
        }
        AssociationError::Closed(CloseReason::AbortedLocally(_)) if said && has(Trouble::ProtocolUnreachable) => {
            ConnectError::Refused(format!("no program uses SCTP over IP at {addrs}"))
        }
        AssociationError::Closed(CloseReason::AbortedLocally(_)) if said => {
            ConnectError::Unreachable(format!("the network has no way to {addrs}"))
        }
        AssociationError::Closed(reason @ (CloseReason::Refused { .. } | CloseReason::KeyRequired)) => {
            ConnectError::Refused(reason.to_string())
        }
        AssociationError::Closed(
            reason @ (CloseReason::HandshakeTimeout | CloseReason::PeerUnreachable | CloseReason::DataUnanswered),
        ) => ConnectError::TimedOut(reason),
        other => ConnectError::Closed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_s_reports_become_reasons() {
        let [a, b]: [SocketAddr; 2] = ["192.0.2.1:9899".parse().unwrap(), "192.0.2.2:9899".parse().unwrap()];
        let aborted = || AssociationError::Closed(CloseReason::AbortedLocally("unreachable".into()));
        let (closed, no_way) = (Some(Trouble::PortUnreachable), Some(Trouble::HostUnreachable));
        let message = |troubles: &[_]| explain(aborted(), troubles).to_string();
        assert_eq!(
            message(&[(a, no_way), (b, no_way)]),
            "peer unreachable: the network has no way to 192.0.2.1:9899, 192.0.2.2:9899"
        );
        assert!(message(&[(a, no_way), (b, closed)]).starts_with("connection refused: no program listens on"));
        let plain = SocketAddr::new(a.ip(), 0);
        assert_eq!(
            message(&[(plain, Some(Trouble::ProtocolUnreachable))]),
            "connection refused: no program uses SCTP over IP at 192.0.2.1"
        );
        assert!(message(&[(a, closed), (b, None)]).starts_with("aborted by this end"));
    }
}
