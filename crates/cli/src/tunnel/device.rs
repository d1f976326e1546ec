//! A TUN device whose packets go over associations.

#[cfg(target_os = "linux")]
pub(crate) use linux::Device;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Device;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::IpAddr;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use nix::libc;
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tun_rs::{DeviceBuilder, SyncDevice};

    use crate::transfer::failure::Failure;
    use crate::tunnel::handling::Handling;
    use crate::tunnel::link::Link;
    use crate::tunnel::network::{Addrs, Network};
    use crate::tunnel::protocol::packet_message;
    use crate::tunnel::routes::{Claim, Routes};

    /// Packets read before other tasks have their turn.
    const BURST: usize = 64;

    /// A device and the associations that carry its packets.
    #[derive(Debug)]
    pub(crate) struct Device {
        fd: AsyncFd<Tun>,
        name: String,
        routes: Mutex<Routes<Link>>,
        /// At a server: packets of peers with source addresses of other networks are discarded.
        only: Vec<Network>,
    }

    struct Tun(SyncDevice);

    impl std::fmt::Debug for Tun {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_tuple("Tun").field(&self.0.name()).finish()
        }
    }

    impl std::os::fd::AsRawFd for Tun {
        fn as_raw_fd(&self) -> std::os::fd::RawFd {
            self.0.as_raw_fd()
        }
    }

    impl std::os::fd::AsFd for Tun {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl Device {
        /// Creates the device, with its addresses and routes. At a server, packets of peers must come from its networks.
        /// `most_addrs`: addresses that a peer may use there.
        ///
        /// # Errors
        /// Returns an error if the system refuses, for example because the user may not do this.
        pub(crate) fn create(
            networks: &[Network],
            mtu: u16,
            is_server: bool,
            most_addrs: usize,
        ) -> Result<Self, Failure> {
            #[allow(
                deprecated,
                reason = "its replacement is unsafe code; `Tun` owns its descriptor and always returns the same one"
            )]
            let create = || -> io::Result<Self> {
                let mut builder = DeviceBuilder::new().mtu(mtu);
                for network in networks {
                    builder = match network.addr {
                        IpAddr::V4(addr) => builder.ipv4(addr, network.prefix, None),
                        IpAddr::V6(addr) => builder.ipv6(addr, network.prefix),
                    };
                }
                let device = builder.build_sync()?;
                device.set_nonblocking(true)?;
                Ok(Device {
                    name: device.name()?,
                    fd: AsyncFd::new(Tun(device))?,
                    routes: Mutex::new(Routes::new(most_addrs)),
                    only: if is_server { networks.to_vec() } else { Vec::new() },
                })
            };
            create().map_err(|error| {
                let hint = if error.kind() == io::ErrorKind::PermissionDenied {
                    "; --tun needs root, --forward does not"
                } else {
                    ""
                };
                Failure::file(format!("cannot create the TUN device: {error}{hint}"))
            })
        }

        pub(crate) fn name(&self) -> &str {
            &self.name
        }

        fn routes(&self) -> MutexGuard<'_, Routes<Link>> {
            self.routes.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Sends all packets of the device over this association from now on: a client has only one.
        pub(crate) fn attach(&self, link: &Link) {
            self.routes().set_default(link.number, link.clone());
        }

        /// Stops sending over this association. Its addresses are free.
        pub(crate) fn detach(&self, number: u64) {
            self.routes().remove(number);
        }

        /// Writes a packet of a peer. One that the system does not take is dropped. At a server, a packet is discarded whose source is not
        /// in its networks, or is the address of another client: returns this address and the other client.
        pub(crate) fn take(&self, link: &Link, packet: &[u8]) -> Option<(IpAddr, Link)> {
            if !self.only.is_empty() {
                let source = Addrs::of(packet)?.source;
                if !self.only.iter().any(|network| network.has_host(source)) {
                    return None;
                }
                let mut routes = self.routes();
                if let Claim::Taken(owner) = routes.claim(source, link.number, link) {
                    return routes.link(owner).map(|owner| (source, owner.clone()));
                }
            }
            let _ = self.fd.get_ref().0.send(packet);
            None
        }

        /// Carries packets of the system to the peers.
        ///
        /// # Errors
        /// Returns an error if the device cannot be read, for example because it was removed.
        pub(crate) async fn carry(&self) -> Result<(), Failure> {
            let cannot = |error: io::Error| {
                let name = &self.name;
                Failure::file(match error.raw_os_error() {
                    Some(libc::EBADFD) => format!("the TUN device {name} was removed"),
                    _ => format!("cannot read the TUN device {name}: {error}"),
                })
            };
            let mut buffer = vec![0; 65_536];
            loop {
                // A device that is removed becomes ready for errors only.
                let ready = self.fd.ready(Interest::READABLE | Interest::ERROR);
                let mut guard = ready.await.map_err(cannot)?;
                for _ in 0..BURST {
                    match guard.try_io(|fd| fd.get_ref().0.recv(&mut buffer)) {
                        Ok(Ok(len)) => self.send(&buffer[..len]),
                        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                        Ok(Err(error)) => return Err(cannot(error)),
                        Err(_) => break,
                    }
                }
                drop(guard);
                tokio::task::yield_now().await;
            }
        }

        /// Sends a packet to the peer that has its destination, or drops it if too much is waiting.
        fn send(&self, packet: &[u8]) {
            let Some(addrs) = Addrs::of(packet) else { return };
            let Some(link) = self.routes().find(addrs.destination).cloned() else {
                return;
            };
            let Handling { flow, in_order } = Handling::of(packet);
            if in_order {
                link.offer_in_order(flow, packet);
            } else {
                link.offer_in_time(|| packet_message(flow, packet));
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::net::IpAddr;

    use crate::transfer::failure::Failure;
    use crate::tunnel::link::Link;
    use crate::tunnel::network::Network;

    /// A TUN device, which this system does not have.
    #[derive(Debug)]
    pub(crate) enum Device {}

    impl Device {
        pub(crate) fn create(_: &[Network], _: u16, _: bool, _: usize) -> Result<Self, Failure> {
            Err(Failure::wrong_use("--tun needs Linux"))
        }

        pub(crate) fn name(&self) -> &str {
            match *self {}
        }

        pub(crate) fn attach(&self, _: &Link) {
            match *self {}
        }

        pub(crate) fn detach(&self, _: u64) {
            match *self {}
        }

        pub(crate) fn take(&self, _: &Link, _: &[u8]) -> Option<(IpAddr, Link)> {
            match *self {}
        }

        pub(crate) async fn carry(&self) -> Result<(), Failure> {
            match *self {}
        }
    }
}
