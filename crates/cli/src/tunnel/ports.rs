//! The local ports of a client. They stay while the tunnel connects again.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::datagrams::LocalSocket;
use super::events::Events;
use super::flows::UdpPort;
use super::forward::{Forward, Protocol, Target};
use super::mux::Mux;
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;

/// After an error of a listening port.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The association that carries connections and datagrams, if there is one.
pub(crate) type Current = watch::Receiver<Option<Mux>>;

/// The ports.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    tcp: Vec<(TcpListener, Target)>,
    udp: Vec<UdpPort>,
}

impl Ports {
    /// Opens the ports and reports them.
    ///
    /// # Errors
    /// Returns an error if one cannot be opened.
    pub(crate) async fn bind(forwards: &[Forward], console: &Console, events: &Events) -> Result<Self, Failure> {
        let mut ports = Ports::default();
        for Forward { local, target } in forwards {
            let (protocol, bound) = match target.protocol {
                Protocol::Tcp => ("TCP", ports.bind_tcp(*local, target).await),
                Protocol::Udp => ("UDP", ports.bind_udp(*local, target).await),
            };
            let cannot = |error| Failure::file(format!("cannot listen on {protocol} {local}: {error}"));
            let local = bound.map_err(cannot)?;
            console.note(format!("{protocol} {local} goes to {target}"));
            events.forwarding(protocol, local, target);
            if !local.ip().is_loopback() {
                console.note(format!("warning: anyone who can reach {local} can use the tunnel"));
            }
        }
        Ok(ports)
    }

    async fn bind_tcp(
        &mut self,
        local: std::net::SocketAddr,
        target: &Target,
    ) -> std::io::Result<std::net::SocketAddr> {
        let listener = TcpListener::bind(local).await?;
        let local = listener.local_addr()?;
        self.tcp.push((listener, target.clone()));
        Ok(local)
    }

    async fn bind_udp(
        &mut self,
        local: std::net::SocketAddr,
        target: &Target,
    ) -> std::io::Result<std::net::SocketAddr> {
        let socket = Arc::new(LocalSocket::bind(local).await?);
        let local = socket.local_addr()?;
        let (index, target) = (self.udp.len(), target.clone());
        self.udp.push(UdpPort { index, socket, target });
        Ok(local)
    }

    /// Serves the ports in tasks.
    pub(crate) fn serve(self, tasks: &mut JoinSet<()>, current: &Current) {
        for (listener, target) in self.tcp {
            tasks.spawn(accept(listener, target, current.clone()));
        }
        for port in self.udp {
            tasks.spawn(receive(port, current.clone()));
        }
    }
}

/// Carries the connections to a port. New ones wait while there is no association.
async fn accept(listener: TcpListener, target: Target, mut current: Current) {
    let mut connections = JoinSet::new();
    loop {
        let mux = current.borrow_and_update().clone();
        tokio::select! {
            accepted = listener.accept(), if mux.is_some() => match (accepted, mux) {
                (Ok((tcp, _)), Some(mux)) => {
                    let target = target.clone();
                    connections.spawn(async move { mux.carry(tcp, &target).await });
                }
                // Too many files are open, or the connection is gone already.
                _ => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
            changed = current.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Carries the datagrams to a port. They are dropped while there is no association.
async fn receive(port: UdpPort, current: Current) {
    let mut buffer = vec![0; 65_536];
    loop {
        match port.socket.receive(&mut buffer).await {
            Ok((len, source)) => {
                if let Some(mux) = &*current.borrow() {
                    mux.on_local_datagram(&port, source, &buffer[..len]);
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
