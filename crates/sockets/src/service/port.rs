//! SCTP ports of the process: the addresses they are bound to, and the stack of each.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::{Rc, Weak};

use nix::errno::Errno;
use whimbrel::{BindError, Stack, StackConfig};

use crate::service::Service;
use crate::service::options::Options;

/// The versions of IP that a socket takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Families {
    pub(crate) v4: bool,
    pub(crate) v6: bool,
}

impl Families {
    fn have(self, ip: &IpAddr) -> bool {
        if ip.is_ipv4() { self.v4 } else { self.v6 }
    }
}

/// An SCTP port. Sockets that were accepted from a listening one share it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    /// Empty: all addresses of the host.
    pub(crate) addresses: RefCell<Vec<IpAddr>>,
    families: Families,
    stack: RefCell<Option<Stack>>,
    /// A socket that was bound to it is open.
    pub(crate) owned: Cell<bool>,
}

impl Port {
    /// Whether packets may already come from its addresses.
    pub(crate) fn has_stack(&self) -> bool {
        self.stack.borrow().is_some()
    }

    /// Whether a socket with these addresses would have one of this port's.
    fn overlaps(&self, addresses: &[IpAddr], families: Families) -> bool {
        let own = self.addresses.borrow();
        match (own.is_empty(), addresses.is_empty()) {
            (true, true) => self.families.v4 && families.v4 || self.families.v6 && families.v6,
            (true, false) => addresses.iter().any(|ip| self.families.have(ip)),
            (false, true) => own.iter().any(|ip| families.have(ip)),
            (false, false) => own.iter().any(|ip| addresses.contains(ip)),
        }
    }
}

impl Service {
    /// Reserves a port; 0 takes a free one.
    pub(crate) fn reserve(&self, number: u16, addresses: Vec<IpAddr>, families: Families) -> Result<Rc<Port>, Errno> {
        let mut ports = self.ports.borrow_mut();
        ports.retain(|port| port.strong_count() > 0);
        let live: Vec<Rc<Port>> = ports.iter().filter_map(Weak::upgrade).collect();
        let number = match number {
            0 => free_port(|number| live.iter().any(|port| port.number == number))?,
            number => number,
        };
        let mut others = live
            .iter()
            .filter(|port| port.number == number && port.overlaps(&addresses, families));
        if let Some(port) = others.next() {
            if port.owned.get() || others.next().is_some() {
                return Err(Errno::EADDRINUSE);
            }
            // What is left of earlier sockets: their associations go on.
            port.owned.set(true);
            return Ok(port.clone());
        }
        let port = Rc::new(Port {
            number,
            addresses: RefCell::new(addresses),
            families,
            stack: RefCell::default(),
            owned: Cell::new(true),
        });
        ports.push(Rc::downgrade(&port));
        Ok(port)
    }

    /// Returns whether this host has the address.
    pub(crate) fn is_local(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.transport.local_addrs().contains(&ip)
    }

    /// Returns the stack of a port, which begins with the first association or with `listen`. `peer` is the first address of the peer, if one
    /// is to be connected to, and `backlog` that of `listen`. A stack that has begun keeps its options.
    pub(crate) fn stack(
        &self,
        port: &Port,
        options: &Options,
        peer: Option<IpAddr>,
        backlog: Option<usize>,
    ) -> Result<Stack, Errno> {
        if let Some(stack) = &*port.stack.borrow() {
            return Ok(stack.clone());
        }
        let mut addresses = port.addresses.borrow().clone();
        if addresses.is_empty() {
            // Loopback addresses reach this host only, and are no paths to others.
            let fits =
                |ip: &IpAddr| port.families.have(ip) && peer.is_none_or(|peer| ip.is_loopback() == peer.is_loopback());
            addresses.extend(self.transport.local_addrs().into_iter().filter(fits));
            if let Some(peer) = peer.filter(IpAddr::is_loopback) {
                addresses = vec![peer];
            }
        }
        let local = StackConfig::local(addresses.into_iter().map(|ip| self.settings.carried(ip)));
        let config = StackConfig {
            backlog: backlog.unwrap_or(local.backlog),
            port: port.number,
            association: options.association(self.settings.scheme),
            first_message_timeout: None,
            max_associations_per_address: 16_384,
            answer_all_ports: Some(false),
            transport: Some(self.transport.clone()),
            ..local
        };
        let stack = Stack::bind(config).map_err(|error| bind_errno(&error))?;
        *port.stack.borrow_mut() = Some(stack.clone());
        Ok(stack)
    }
}

/// Chooses a port of the dynamic ones (RFC 6335 §6).
fn free_port(taken: impl Fn(u16) -> bool) -> Result<u16, Errno> {
    let mut random = [0; 2];
    getrandom::fill(&mut random).map_err(|_| Errno::EIO)?;
    let first = u16::from_ne_bytes(random) % 16_384;
    let candidates = (0..16_384).map(|step| 49_152 + (first + step) % 16_384);
    candidates
        .into_iter()
        .find(|number| !taken(*number))
        .ok_or(Errno::EADDRINUSE)
}

fn bind_errno(error: &BindError) -> Errno {
    match error {
        BindError::Bind { source, .. } | BindError::Raw { source, .. } | BindError::NoRoute { source, .. } => {
            match (source.raw_os_error(), source.kind()) {
                (Some(errno), _) => Errno::from_raw(errno),
                (None, std::io::ErrorKind::AddrInUse) => Errno::EADDRINUSE,
                (None, std::io::ErrorKind::PermissionDenied) => Errno::EACCES,
                _ => Errno::EADDRNOTAVAIL,
            }
        }
        BindError::Config(_) => Errno::EINVAL,
        _ => Errno::EADDRNOTAVAIL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_not_taken() {
        let only = free_port(|number| number != 50_000);
        assert_eq!(only, Ok(50_000));
        assert_eq!(free_port(|_| true), Err(Errno::EADDRINUSE));
    }
}
