//! Datagrams that are longer than the path MTU.
//!
//! Routers may not fragment packets, and report one that is too long (RFC 1191, RFC 8201). A report counts if it quotes the Verification Tag of
//! the association (RFC 9260 §10): a host that has not seen the packets does not know it. The system believes reports without the tag as well, so
//! that the path MTU that it knows proves little. The protocol sends shorter packets then, but chunks that it has sent before keep their
//! length: packets with these may be fragmented. Where routers report nothing, the protocol finds out by its timers.

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
        /// The largest packet with a fragment, 0: the path MTU that the system knows (ipv6(7)).
        FragmentV6,
        SetOnly,
        libc::IPPROTO_IPV6,
        libc::IPV6_MTU,
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
        /// The same for IPv6.
        MtuV6,
        GetOnly,
        libc::IPPROTO_IPV6,
        libc::IPV6_MTU,
        libc::c_int
    );

    /// MTU in bytes that every link with IPv6 has (RFC 8200 §5).
    const LEAST_MTU_V6: libc::c_int = 1280;

    /// Returns the MTU in bytes that the system knows for this destination.
    pub(crate) fn of_route(mut local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        local.set_port(0);
        let socket = std::net::UdpSocket::bind(local).ok()?;
        socket.connect(remote).ok()?;
        let mtu = match local {
            SocketAddr::V4(_) => getsockopt(&socket, MtuV4),
            SocketAddr::V6(_) => getsockopt(&socket, MtuV6),
        };
        mtu.ok()?.try_into().ok()
    }

    /// While it exists, datagrams may be fragmented: by this host if they are longer than the path MTU that the system knows, and by routers
    /// (IPv4). Before and afterwards, the socket forbids it, as quinn-udp has set it up.
    pub(crate) struct Fragmenting<'a, S: AsFd> {
        socket: &'a S,
        local: IpAddr,
    }

    impl<'a, S: AsFd> Fragmenting<'a, S> {
        pub(crate) fn begin(socket: &'a S, local: IpAddr) -> Self {
            // Where the system does not allow it, the datagram is lost.
            let _ = match local {
                IpAddr::V4(_) => setsockopt(socket, DiscoverV4, &libc::IP_PMTUDISC_DONT),
                // Routers do not fragment: each fragment must pass every link.
                IpAddr::V6(_) => setsockopt(socket, DiscoverV6, &libc::IPV6_PMTUDISC_DONT)
                    .and_then(|()| setsockopt(socket, DontFragmentV6, &0))
                    .and_then(|()| setsockopt(socket, FragmentV6, &LEAST_MTU_V6)),
            };
            Fragmenting { socket, local }
        }
    }

    impl<S: AsFd> Drop for Fragmenting<'_, S> {
        // [8899:4.5-1]
        fn drop(&mut self) {
            match self.local {
                IpAddr::V4(_) => {
                    let _ = setsockopt(self.socket, DiscoverV4, &libc::IP_PMTUDISC_PROBE);
                }
                IpAddr::V6(_) => {
                    let _ = setsockopt(self.socket, FragmentV6, &0);
                    let _ = setsockopt(self.socket, DontFragmentV6, &1);
                    let _ = setsockopt(self.socket, DiscoverV6, &libc::IPV6_PMTUDISC_PROBE);
                }
            }
        }
    }
}

/// On other systems, datagrams that are too long are lost.
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
