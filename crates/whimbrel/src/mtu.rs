//! Datagrams that are longer than the path MTU.
//!
//! Routers may not fragment packets, and report one that is too long (RFC 1191, RFC 8201). A report counts if it quotes the Verification Tag of
//! the association, which who has not seen its packets does not know (RFC 9260 §10). The system alone would believe forged ones. The protocol
//! then sends shorter packets, but chunks that it has sent before keep their length: packets with these may be fragmented. Where routers
//! report nothing, the protocol finds out by its timers.

#[cfg(target_os = "linux")]
pub(crate) use linux::{Fragmenting, of_route};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{Fragmenting, of_route};

#[cfg(target_os = "linux")]
mod linux {
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::AsFd;

    use nix::sys::socket::{getsockopt, setsockopt};
    use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};

    sockopt_impl!(
        /// Whether packets may be fragmented (ip(7)).
        DiscoverV4,
        SetOnly,
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::c_int
    );
    sockopt_impl!(
        /// The same for IPv6.
        DiscoverV6,
        SetOnly,
        libc::IPPROTO_IPV6,
        libc::IPV6_MTU_DISCOVER,
        libc::c_int
    );
    sockopt_impl!(
        /// Whether datagrams that need fragmentation are refused (ipv6(7)).
        DontFragmentV6,
        SetOnly,
        libc::IPPROTO_IPV6,
        libc::IPV6_DONTFRAG,
        libc::c_int
    );
    sockopt_impl!(
        /// The path MTU of a connected socket.
        MtuV4,
        GetOnly,
        libc::IPPROTO_IP,
        libc::IP_MTU,
        libc::c_int
    );
    sockopt_impl!(
        /// The same for IPv6. Setting it limits the length of fragments; 0: the path MTU.
        MtuV6,
        Both,
        libc::IPPROTO_IPV6,
        libc::IPV6_MTU,
        libc::c_int
    );

    /// Bytes that every link with IPv6 carries (RFC 8200 §5).
    const LEAST_V6: libc::c_int = 1280;

    /// Returns the MTU in bytes that the system knows for this destination.
    pub(crate) fn of_route(local: IpAddr, remote: SocketAddr) -> Option<u32> {
        let socket = std::net::UdpSocket::bind((local, 0)).ok()?;
        socket.connect(remote).ok()?;
        let mtu = match local {
            IpAddr::V4(_) => getsockopt(&socket, MtuV4),
            IpAddr::V6(_) => getsockopt(&socket, MtuV6),
        };
        mtu.ok()?.try_into().ok()
    }

    /// While it exists, long datagrams are fragmented: by routers (IPv4), or by this host into fragments that every link carries (IPv6). Before
    /// and afterwards, the socket forbids fragmentation, as quinn-udp has set it up.
    pub(crate) struct Fragmenting<'a, S: AsFd> {
        socket: &'a S,
        local: IpAddr,
    }

    impl<'a, S: AsFd> Fragmenting<'a, S> {
        pub(crate) fn begin(socket: &'a S, local: IpAddr) -> Self {
            // Where the system does not allow it, the datagram is lost.
            let _ = match local {
                IpAddr::V4(_) => setsockopt(socket, DiscoverV4, &libc::IP_PMTUDISC_DONT),
                IpAddr::V6(_) => setsockopt(socket, DiscoverV6, &libc::IPV6_PMTUDISC_DONT)
                    .and_then(|()| setsockopt(socket, DontFragmentV6, &0))
                    .and_then(|()| setsockopt(socket, MtuV6, &LEAST_V6)),
            };
            Fragmenting { socket, local }
        }
    }

    impl<S: AsFd> Drop for Fragmenting<'_, S> {
        fn drop(&mut self) {
            let _ = match self.local {
                IpAddr::V4(_) => setsockopt(self.socket, DiscoverV4, &libc::IP_PMTUDISC_PROBE),
                IpAddr::V6(_) => setsockopt(self.socket, MtuV6, &0)
                    .and_then(|()| setsockopt(self.socket, DontFragmentV6, &1))
                    .and_then(|()| setsockopt(self.socket, DiscoverV6, &libc::IPV6_PMTUDISC_PROBE)),
            };
        }
    }
}

/// Other systems decide by themselves.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::marker::PhantomData;
    use std::net::{IpAddr, SocketAddr};

    pub(crate) fn of_route(_: IpAddr, _: SocketAddr) -> Option<u32> {
        None
    }

    pub(crate) struct Fragmenting<'a, S>(PhantomData<&'a S>);

    impl<'a, S> Fragmenting<'a, S> {
        pub(crate) fn begin(_: &'a S, _: IpAddr) -> Self {
            Fragmenting(PhantomData)
        }
    }
}
