//! What the kernel says about addresses and routes of this host (rtnetlink(7)).

#[cfg(target_os = "linux")]
pub(crate) use linux::{Signal, route};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Signal;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::IpAddr;
    use std::os::fd::{AsRawFd, OwnedFd};

    use nix::errno::Errno;
    use nix::sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    // linux/rtnetlink.h: groups of links, and of addresses, routes and rules of both versions.
    const LINKS: u32 = 0x1;
    const ADDRESSES: u32 = 0x10 | 0x100;
    const ROUTES: u32 = 0x40 | 0x400;
    const RULES: u32 = 0x80 | 0x4_0000;

    /// A netlink socket. Its messages are not parsed: any message means that something may have changed.
    #[derive(Debug)]
    pub(crate) struct Signal(AsyncFd<OwnedFd>);

    impl Signal {
        /// A signal for addresses of this host that come or go.
        pub(crate) fn of_addresses() -> io::Result<Self> {
            Signal::new(LINKS | ADDRESSES)
        }

        /// A signal for routes and rules of this host that change.
        pub(crate) fn of_routes() -> io::Result<Self> {
            Signal::new(LINKS | ADDRESSES | ROUTES | RULES)
        }

        #[allow(
            deprecated,
            reason = "the descriptor is ours alone and stays open as long as this; the new form needs unsafe code"
        )]
        fn new(groups: u32) -> io::Result<Self> {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
            bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
            Ok(Signal(AsyncFd::with_interest(fd, Interest::READABLE)?))
        }

        /// Waits until a message has come since the last call.
        pub(crate) async fn wait(&self) -> io::Result<()> {
            let mut buffer = [0; 8192];
            loop {
                let mut ready = self.0.readable().await?;
                let mut heard = false;
                loop {
                    match recv(self.0.get_ref().as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                        // Messages were dropped (ENOBUFS): the list of addresses has what they said.
                        Ok(_) | Err(Errno::ENOBUFS) => heard = true,
                        Err(Errno::EINTR) => {}
                        Err(Errno::EAGAIN) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                ready.clear_ready();
                if heard {
                    return Ok(());
                }
            }
        }
    }

    // linux/rtnetlink.h and linux/netlink.h
    const RTM_NEWROUTE: u16 = 24;
    const RTM_GETROUTE: u16 = 26;
    const NLM_F_REQUEST: u16 = 1;
    /// The answer has the table and the route that was found, not only what follows for the destination.
    const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
    const RTM_F_FIB_MATCH: u32 = 0x2000;
    const RT_TABLE_MAIN: u32 = 254;
    const RTA_DST: u16 = 1;
    const RTA_SRC: u16 = 2;
    const RTA_OIF: u16 = 4;
    const RTA_TABLE: u16 = 15;
    /// Bytes of struct nlmsghdr and struct rtmsg.
    const MESSAGE_HEADER: usize = 16;
    const ROUTE_HEADER: usize = 12;

    /// A route of this host.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Route {
        /// Index of the interface by which packets leave; none if there are several.
        pub(crate) interface: Option<u32>,
        table: u32,
        /// Length of the prefix of its destinations in bits.
        prefix: u8,
    }

    impl Route {
        /// Whether it is a default route of the main table.
        pub(crate) fn is_default(&self) -> bool {
            self.table == RT_TABLE_MAIN && self.prefix == 0
        }
    }

    /// Returns the route of packets from `local` to `remote`; with an index other than 0, if they are to leave by that interface.
    ///
    /// # Errors
    /// `HostUnreachable` if there is no route; another error if the kernel cannot be asked.
    pub(crate) fn route(local: IpAddr, remote: IpAddr, interface: u32) -> io::Result<Route> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        let question = question(local, remote, interface);
        sendto(fd.as_raw_fd(), &question, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut buffer = [0; 4096];
        // The kernel has answered before `sendto` returns.
        let len = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT)?;
        answer(buffer.get(..len).unwrap_or_default()).ok_or_else(|| io::ErrorKind::HostUnreachable.into())
    }

    /// The request for a route.
    fn question(local: IpAddr, remote: IpAddr, interface: u32) -> Vec<u8> {
        let octets = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let (family, bits) = match remote {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        let mut body = vec![family as u8, bits, bits, 0, 0, 0, 0, 0];
        body.extend((RTM_F_LOOKUP_TABLE | RTM_F_FIB_MATCH).to_ne_bytes());
        let mut add = |kind: u16, value: &[u8]| {
            // All values have a multiple of four bytes.
            body.extend((value.len() as u16 + 4).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value);
        };
        add(RTA_DST, &octets(remote));
        add(RTA_SRC, &octets(local));
        if interface != 0 {
            add(RTA_OIF, &interface.to_ne_bytes());
        }
        let mut message = ((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(RTM_GETROUTE.to_ne_bytes());
        message.extend(NLM_F_REQUEST.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        message
    }

    /// The route of an answer.
    fn answer(message: &[u8]) -> Option<Route> {
        let u16_at = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let message = message.get(..u32_at(message, 0)? as usize)?;
        if u16_at(message, 4)? != RTM_NEWROUTE {
            return None;
        }
        let header = message.get(MESSAGE_HEADER..MESSAGE_HEADER + ROUTE_HEADER)?;
        let mut route = Route {
            interface: None,
            table: header[4].into(),
            prefix: header[1],
        };
        let mut rest = message.get(MESSAGE_HEADER + ROUTE_HEADER..)?;
        while !rest.is_empty() {
            let len = usize::from(u16_at(rest, 0)?);
            let value = rest.get(4..len)?;
            match u16_at(rest, 2)? {
                RTA_OIF => route.interface = u32_at(value, 0),
                RTA_TABLE => route.table = u32_at(value, 0)?,
                _ => {}
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(route)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_route_to_this_host_is_no_default_route() {
            let loopback: IpAddr = "127.0.0.1".parse().unwrap();
            let route = whimbrel_testkit::needs!(route(loopback, loopback, 0).map_err(|e| format!("no netlink: {e}")));
            assert!(!route.is_default());
            assert_eq!(route.interface, nix::net::if_::if_nametoindex("lo").ok());
        }

        #[test]
        fn broken_answers_are_no_routes() {
            let whole = {
                let mut message = vec![44, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                message.extend([2, 0, 0, 0, 254, 0, 0, 0, 0, 0, 0, 0]);
                message.extend([8, 0, 4, 0, 7, 0, 0, 0, 8, 0, 15, 0, 254, 0, 0, 0]);
                message
            };
            let expected = Route {
                interface: Some(7),
                table: 254,
                prefix: 0,
            };
            if cfg!(target_endian = "little") {
                assert!(expected.is_default());
                assert_eq!(answer(&whole), Some(expected));
            }
            for len in 0..whole.len() {
                assert_eq!(answer(&whole[..len]), None, "{len}");
            }
            for at in 0..whole.len() {
                for value in [0, 1, 2, 3, 255] {
                    let mut broken = whole.clone();
                    broken[at] = value;
                    let _ = answer(&broken);
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;

    #[derive(Debug)]
    pub(crate) struct Signal;

    impl Signal {
        pub(crate) fn of_addresses() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) async fn wait(&self) -> io::Result<()> {
            std::future::pending().await
        }
    }
}
