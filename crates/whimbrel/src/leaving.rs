//! Through which interface the packets of a local address leave.
//!
//! A host routes by destination. With default routes over two interfaces, packets of both local addresses take the better route, so that two
//! paths share one radio, and a network that knows its own addresses only discards what comes from the other one's. A socket therefore asks
//! for the interface that has its address. Rules of the administrator (ip-rule(8)) are tried first and stay in force.

#[cfg(target_os = "linux")]
pub(crate) use linux::Interface;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Interface;

#[cfg(target_os = "linux")]
mod linux {
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use nix::sys::socket::setsockopt;
    use nix::{libc, setsockopt_impl, sockopt_impl};

    use crate::interface;
    use crate::watch::Signal;

    sockopt_impl!(
        /// The interface by which unicast packets leave, as an index in network byte order; 0: any (ip(7)).
        UnicastIfV4,
        SetOnly,
        libc::IPPROTO_IP,
        libc::IP_UNICAST_IF,
        libc::c_int
    );
    sockopt_impl!(
        /// The same for IPv6.
        UnicastIfV6,
        SetOnly,
        libc::IPPROTO_IPV6,
        libc::IPV6_UNICAST_IF,
        libc::c_int
    );

    /// linux/route.h: the route can be used; it refuses packets.
    const RTF_UP: u32 = 0x1;
    const RTF_REJECT: u32 = 0x200;

    /// Routes are read no more often than this.
    const PAUSE: Duration = Duration::from_millis(100);

    /// The choice of a socket's interface.
    #[derive(Debug)]
    pub(crate) struct Interface {
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
        /// Addresses of this host, which are reached by no interface.
        host: Vec<IpAddr>,
        /// The last destination.
        remote: Option<IpAddr>,
    }

    impl Interface {
        /// The choice for a socket at this address, within a tokio runtime.
        pub(crate) fn of(local: SocketAddr) -> Self {
            let interface = Interface {
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
            interface.choose();
            interface
        }

        /// Decides anew, after routes have changed.
        fn choose(&self) {
            let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
            choice.own = own_interface(self.local).unwrap_or(0);
            choice.host = if choice.own == 0 {
                Vec::new()
            } else {
                interface::local_addrs()
            };
            choice.remote = None;
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
            let inside = remote.is_loopback() || choice.host.contains(&remote);
            let wanted = if inside { 0 } else { choice.own };
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

        /// Decides anew after each change of routes, for ever.
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

    /// The interface that has this address, if it has a default route and another interface has one, too.
    fn own_interface(local: IpAddr) -> Option<u32> {
        let ways = default_routes(local.is_ipv6());
        let name = interface::name_of(local)?;
        let choice = ways.contains(&name) && ways.iter().any(|way| *way != name);
        if choice {
            nix::net::if_::if_nametoindex(name.as_str()).ok()
        } else {
            None
        }
    }

    /// Interfaces with a default route in the main table.
    fn default_routes(v6: bool) -> Vec<String> {
        let (file, of_line): (_, fn(&str) -> Option<&str>) = if v6 {
            ("/proc/thread-self/net/ipv6_route", default_v6)
        } else {
            ("/proc/thread-self/net/route", default_v4)
        };
        let routes = std::fs::read_to_string(file).unwrap_or_default();
        routes.lines().filter_map(of_line).map(String::from).collect()
    }

    fn usable(flags: &str) -> Option<()> {
        let flags = u32::from_str_radix(flags, 16).ok()?;
        (flags & RTF_UP != 0 && flags & RTF_REJECT == 0).then_some(())
    }

    /// The interface of a line of /proc/net/route, if it is a default route: name, destination, gateway, flags, ..., mask at place 7.
    fn default_v4(line: &str) -> Option<&str> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (name, destination, flags, mask) = (*fields.first()?, *fields.get(1)?, *fields.get(3)?, *fields.get(7)?);
        usable(flags)?;
        (destination == "00000000" && mask == "00000000").then_some(name)
    }

    /// The same for /proc/net/ipv6_route: destination, prefix length, ..., flags at place 8, name at place 9.
    fn default_v6(line: &str) -> Option<&str> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (destination, length, flags, name) = (*fields.first()?, *fields.get(1)?, *fields.get(8)?, *fields.get(9)?);
        usable(flags)?;
        (length == "00" && destination.bytes().all(|digit| digit == b'0') && name != "lo").then_some(name)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn default_routes_are_found_among_others() {
            let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                      wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
                      wwan0\t00000000\t00000000\t0001\t0\t0\t700\t00000000\t0\t0\t0\n\
                      down0\t00000000\t00000000\t0002\t0\t0\t700\t00000000\t0\t0\t0\n\
                      *\t00000000\t00000000\t0201\t0\t0\t700\t00000000\t0\t0\t0\n\
                      vpn0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n\
                      wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n";
            assert_eq!(
                v4.lines().filter_map(default_v4).collect::<Vec<_>>(),
                ["wlan0", "wwan0"]
            );
            let zero = "0".repeat(32);
            let v6 = |destination: &str, length, flags, name| {
                format!("{destination} {length} {zero} 00 {zero} 00000400 00000001 00000000 {flags} {name}")
            };
            assert_eq!(default_v6(&v6(&zero, "00", "00450003", "wlan0")), Some("wlan0"));
            assert_eq!(default_v6(&v6(&zero, "00", "00200200", "lo")), None, "refuses");
            assert_eq!(default_v6(&v6(&zero, "08", "00000001", "wlan0")), None);
            assert_eq!(default_v6(&v6(&"1".repeat(32), "00", "00000001", "wlan0")), None);
            assert_eq!((default_v6("nonsense"), default_v4("")), (None, None));
        }
    }
}

/// Other systems decide by the destination.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::net::{IpAddr, SocketAddr};

    #[derive(Debug)]
    pub(crate) struct Interface;

    impl Interface {
        pub(crate) fn of(_: SocketAddr) -> Self {
            Interface
        }

        pub(crate) fn prepare(&self, _: &tokio::net::UdpSocket, _: IpAddr) {}

        pub(crate) async fn follow(&self) {
            std::future::pending().await
        }
    }
}
