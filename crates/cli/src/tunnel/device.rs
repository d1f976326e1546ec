//! A TUN device whose packets go over an association.

use std::net::Ipv4Addr;

/// The address of a device and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) addr: Ipv4Addr,
    pub(crate) prefix: u8,
}

/// Parses ADDR/PREFIX.
pub(crate) fn parse_network(text: &str) -> Result<Network, String> {
    let wrong = || format!("`{text}` is not an IPv4 address with the length of its prefix, such as 10.9.0.1/24");
    let (addr, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let addr = addr.parse().map_err(|_| wrong())?;
    let prefix = prefix
        .parse()
        .ok()
        .filter(|prefix| (1..=32).contains(prefix))
        .ok_or_else(wrong)?;
    Ok(Network { addr, prefix })
}

impl Network {
    /// Returns whether an IPv4 packet has a source address in this network.
    pub(crate) fn is_source_of(&self, packet: &[u8]) -> bool {
        let mask = u32::MAX << (32 - u32::from(self.prefix));
        let source = packet.get(12..16).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let is_v4 = packet.len() >= 20 && packet[0] >> 4 == 4;
        is_v4 && source.is_some_and(|source| (u32::from_be_bytes(source) ^ self.addr.to_bits()) & mask == 0)
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::Device;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Device;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};

    use bytes::Bytes;
    use tokio::io::unix::AsyncFd;
    use tun_rs::{DeviceBuilder, SyncDevice};
    use whimbrel::{Association, TrySendError};

    use super::Network;
    use crate::transfer::failure::Failure;
    use crate::tunnel::protocol::packet_message;

    /// Packets read before other tasks have their turn.
    const BURST: usize = 64;
    /// Bytes that may wait in the send buffer at least.
    const LEAST_WAITING: u64 = 128 * 1024;
    /// Time between two looks at the windows.
    const LOOK: Duration = Duration::from_millis(20);

    /// A device and the association that carries its packets.
    #[derive(Debug)]
    pub(crate) struct Device {
        fd: AsyncFd<Tun>,
        peer: Mutex<Option<(u64, Association)>>,
        /// Packets of the peer with other source addresses are discarded.
        only: Option<Network>,
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
        /// Creates the device, with its address and route. `only`: packets of the peer must come from its network.
        ///
        /// # Errors
        /// Returns an error if the system refuses, for example because the user may not do this.
        pub(crate) fn create(network: Network, mtu: u16, only: bool) -> Result<Self, Failure> {
            #[allow(
                deprecated,
                reason = "its replacement is unsafe code; `Tun` owns its descriptor and always returns the same one"
            )]
            let create = || -> io::Result<Self> {
                let device = DeviceBuilder::new()
                    .ipv4(network.addr, network.prefix, None)
                    .mtu(mtu)
                    .build_sync()?;
                device.set_nonblocking(true)?;
                Ok(Device {
                    fd: AsyncFd::new(Tun(device))?,
                    peer: Mutex::default(),
                    only: only.then_some(network),
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

        pub(crate) fn name(&self) -> String {
            self.fd.get_ref().0.name().unwrap_or_default()
        }

        fn peer(&self) -> MutexGuard<'_, Option<(u64, Association)>> {
            self.peer.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Sends packets of the device over this association from now on. `number` identifies it.
        pub(crate) fn attach(&self, number: u64, association: &Association) {
            *self.peer() = Some((number, association.clone()));
        }

        /// Stops sending over this association, unless another one has followed.
        pub(crate) fn detach(&self, number: u64) {
            self.peer().take_if(|peer| peer.0 == number);
        }

        /// Writes a packet of the peer. One that the system does not take is dropped.
        pub(crate) fn write(&self, packet: &[u8]) {
            if self.only.is_none_or(|network| network.is_source_of(packet)) {
                let _ = self.fd.get_ref().0.send(packet);
            }
        }

        /// Carries packets of the system to the peer.
        ///
        /// # Errors
        /// Returns an error if the device cannot be read.
        pub(crate) async fn carry(&self) -> Result<(), Failure> {
            let cannot = |error: io::Error| Failure::file(format!("cannot read the TUN device: {error}"));
            let mut buffer = vec![0; 65_536];
            let mut room = Room::default();
            loop {
                let mut guard = self.fd.readable().await.map_err(cannot)?;
                for _ in 0..BURST {
                    match guard.try_io(|fd| fd.get_ref().0.recv(&mut buffer)) {
                        Ok(Ok(len)) => self.send(&buffer[..len], &mut room),
                        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                        Ok(Err(error)) => return Err(cannot(error)),
                        Err(_) => break,
                    }
                }
                drop(guard);
                tokio::task::yield_now().await;
            }
        }

        /// Sends a packet, or drops it if too much is waiting, as a router does. More than a window of waiting packets would only delay them.
        fn send(&self, packet: &[u8], room: &mut Room) {
            let peer = self.peer();
            let Some((_, association)) = &*peer else { return };
            if room.is_left(association)
                && let Err(TrySendError::Failed(_)) =
                    association.try_send(packet_message(Bytes::copy_from_slice(packet)))
            {
                // The task that serves the association reports its end.
            }
        }
    }

    /// How much may be in the send buffer: what the windows of the paths carry, twice.
    #[derive(Default)]
    struct Room {
        looked: Option<Instant>,
        most: u64,
    }

    impl Room {
        fn is_left(&mut self, association: &Association) -> bool {
            let now = Instant::now();
            if self.looked.is_none_or(|at| now.duration_since(at) >= LOOK) {
                self.looked = Some(now);
                let windows: u64 = association.paths().iter().map(|path| path.cwnd).sum();
                self.most = windows.saturating_mul(2).max(LEAST_WAITING);
            }
            (association.buffered() as u64) < self.most
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use whimbrel::Association;

    use super::Network;
    use crate::transfer::failure::Failure;

    /// A TUN device, which this system does not have.
    #[derive(Debug)]
    pub(crate) enum Device {}

    impl Device {
        pub(crate) fn create(_: Network, _: u16, _: bool) -> Result<Self, Failure> {
            Err(Failure::wrong_use("--tun needs Linux"))
        }

        pub(crate) fn name(&self) -> String {
            match *self {}
        }

        pub(crate) fn attach(&self, _: u64, _: &Association) {
            match *self {}
        }

        pub(crate) fn detach(&self, _: u64) {
            match *self {}
        }

        pub(crate) fn write(&self, _: &[u8]) {
            match *self {}
        }

        pub(crate) async fn carry(&self) -> Result<(), Failure> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_from_other_networks_are_recognized() {
        let network = parse_network("10.9.0.1/24").expect("a network");
        let packet = |source: [u8; 4]| {
            let mut packet = [0; 20];
            packet[0] = 0x45;
            packet[12..16].copy_from_slice(&source);
            packet
        };
        assert!(network.is_source_of(&packet([10, 9, 0, 77])));
        assert!(!network.is_source_of(&packet([10, 9, 1, 77])));
        assert!(!network.is_source_of(&packet([10, 9, 0, 77])[..19]));
        assert!(!network.is_source_of(&[0x60; 40]) && !network.is_source_of(&[]));
        let all = parse_network("10.9.0.1/32").expect("a network");
        assert!(all.is_source_of(&packet([10, 9, 0, 1])) && !all.is_source_of(&packet([10, 9, 0, 2])));
        for wrong in ["", "10.9.0.1", "10.9.0.1/0", "10.9.0.1/33", "::1/64", "x/24"] {
            assert!(parse_network(wrong).is_err(), "{wrong}");
        }
    }
}
