//! The egress interface of a local address: through which interface its packets leave.
//!
//! A host routes by destination. With default routes over two interfaces, packets of both local addresses take the better route, so that two
//! paths share one radio, and a network that knows its own addresses only discards what comes from the other one's. A socket therefore asks
//! for the interface that has its address, but only in place of a default route of the main table: where a more specific route or a
//! rule of the administrator (ip-rule(8)) decides, such as that of a VPN, it stays in force.

#[cfg(target_os = "linux")]
pub(crate) use linux::Egress;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Egress;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::io;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use nix::sys::socket::setsockopt;
    use nix::{libc, setsockopt_impl, sockopt_impl};

    use crate::interface;
    use crate::netlink::{self, Signal};

    sockopt_impl!(
        /// The interface by which unicast packets leave, as an index in network byte order; 0: any (ip(7)).
        UnicastIfV4,
        SetOnly,
        libc::IPPROTO_IP,
        libc::IP_UNICAST_IF,
        libc::c_int
    );
    sockopt_impl!(
        /// The same for IPv6. The kernel prefers the interface only among routes of equal metric.
        UnicastIfV6,
        SetOnly,
        libc::IPPROTO_IPV6,
        libc::IPV6_UNICAST_IF,
        libc::c_int
    );

    /// After a change of routes, the next one is noticed no sooner than this.
    const PAUSE: Duration = Duration::from_millis(100);
    /// Destinations whose interface is remembered.
    const REMEMBERED: usize = 4096;
    /// Destinations without a route of their own, for documentation (RFC 5737, RFC 3849). A socket whose packets would leave by its own
    /// interface to such a destination has nothing to ask for.
    const ANY_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 254);
    const ANY_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);

    /// The choice of a socket's egress interface.
    #[derive(Debug)]
    pub(crate) struct Egress {
        local: IpAddr,
        /// Whether the socket asks for an interface, or may have to.
        active: AtomicBool,
        choice: Mutex<Choice>,
        /// Routes of this host changed.
        signal: Option<Signal>,
    }

    #[derive(Debug, Default)]
    struct Choice {
        /// Index of the interface that has the local address; 0: the routing table alone decides.
        own: u32,
        /// The index that the socket asks for now.
        asked: u32,
        /// The last destination.
        remote: Option<IpAddr>,
        /// The index to ask for, by destination.
        known: HashMap<IpAddr, u32>,
    }

    impl Egress {
        /// The choice for a socket at this address, within a tokio runtime.
        pub(crate) fn of(local: SocketAddr) -> Self {
            let egress = Egress {
                local: local.ip(),
                active: AtomicBool::new(false),
                choice: Mutex::default(),
                // Without it, changes of routes are not noticed.
                signal: if local.ip().is_loopback() {
                    None
                } else {
                    Signal::of_routes().ok()
                },
            };
            egress.choose();
            egress
        }

        /// Decides again, after addresses, routes or rules have changed.
        fn choose(&self) {
            let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
            let name = interface::one_of_several(self.local);
            let index = name.and_then(|name| nix::net::if_::if_nametoindex(name.as_str()).ok());
            let any = match self.local {
                IpAddr::V4(_) => IpAddr::V4(ANY_V4),
                IpAddr::V6(_) => IpAddr::V6(ANY_V6),
            };
            // If the kernel cannot be asked now, each destination is tried.
            let own = index.filter(|own| leaves_by_another(self.local, any, *own).unwrap_or(true));
            choice.own = own.unwrap_or(0);
            choice.remote = None;
            choice.known.clear();
            self.active
                .store(choice.own != 0 || choice.asked != 0, Ordering::Release);
        }

        /// Prepares the socket for datagrams to this destination.
        pub(crate) fn prepare(&self, socket: &impl AsFd, remote: IpAddr) {
            if !self.active.load(Ordering::Acquire) {
                return;
            }
            let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
            if choice.remote == Some(remote) {
                return;
            }
            choice.remote = Some(remote);
            let wanted = choice.interface(self.local, remote);
            if wanted == choice.asked {
                return;
            }
            let index = libc::c_int::from_ne_bytes(wanted.to_be_bytes());
            let asked = match self.local {
                IpAddr::V4(_) => setsockopt(socket, UnicastIfV4, &index),
                IpAddr::V6(_) => setsockopt(socket, UnicastIfV6, &index),
            };
            if asked.is_ok() {
                choice.asked = wanted;
            }
        }

        /// Decides again after each change of routes; never ends.
        pub(crate) async fn follow(&self) {
            // Without a signal, or where it fails, the choice stays as it is.
            while let Some(signal) = &self.signal
                && signal.wait().await.is_ok()
            {
                self.choose();
                tokio::time::sleep(PAUSE).await;
            }
            std::future::pending().await
        }
    }

    impl Choice {
        /// The index to ask for with this destination; 0 if the routing table decides.
        fn interface(&mut self, local: IpAddr, remote: IpAddr) -> u32 {
            let own = self.own;
            if own == 0 {
                return 0;
            }
            if let Some(&known) = self.known.get(&remote) {
                return known;
            }
            // What the kernel could not be asked, for want of a descriptor, is asked again.
            let Ok(leaves_by_another) = leaves_by_another(local, remote, own) else {
                return 0;
            };
            if self.known.len() >= REMEMBERED
                && let Some(any) = self.known.keys().next().copied()
            {
                self.known.remove(&any);
            }
            let index = if leaves_by_another { own } else { 0 };
            self.known.insert(remote, index);
            index
        }
    }

    /// Whether a default route of the main table sends these packets through another interface than this one, which has a default route as
    /// well.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot be asked.
    fn leaves_by_another(local: IpAddr, remote: IpAddr, own: u32) -> io::Result<bool> {
        let default = |interface| match netlink::route(local, remote, interface) {
            Ok(route) => Ok(Some(route).filter(|route| route.is_default())),
            Err(error) if error.kind() == io::ErrorKind::HostUnreachable => Ok(None),
            Err(error) => Err(error),
        };
        if default(0)?.is_none_or(|route| route.interface == Some(own)) {
            return Ok(false);
        }
        // A route over several interfaces has no single one.
        Ok(default(own)?.is_some_and(|route| route.interface.is_none_or(|interface| interface == own)))
    }
}

/// Other systems decide by the destination.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::net::{IpAddr, SocketAddr};

    #[derive(Debug)]
    pub(crate) struct Egress;

    impl Egress {
        pub(crate) fn of(_: SocketAddr) -> Self {
            Egress
        }

        pub(crate) fn prepare(&self, _: &tokio::net::UdpSocket, _: IpAddr) {}

        pub(crate) async fn follow(&self) {
            std::future::pending().await
        }
    }
}
