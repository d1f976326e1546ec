//! Networks between a sender and a receiver, without privileges: each connects an address of one with an address of the other, with
//! a socket for each end. Only the UDP ports change, so the addresses in the handshake stay valid.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A network that forwards packets until it is cut. It ends with the test's process.
#[derive(Clone)]
pub(crate) struct Network {
    cut: Arc<AtomicBool>,
    /// Bytes forwarded to the receiver.
    carried: Arc<AtomicU64>,
    /// Of this many packets to the receiver, a byte of one is changed; zero: of none.
    corrupt: Arc<AtomicU64>,
    corrupted: Arc<AtomicU64>,
}

impl Network {
    pub(crate) fn corrupt_every(&self, packets: u64) {
        self.corrupt.store(packets, Ordering::Relaxed);
    }

    pub(crate) fn corrupted(&self) -> u64 {
        self.corrupted.load(Ordering::Relaxed)
    }

    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    pub(crate) fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }
}

/// Connects senders' addresses with those of a receiver, pair by pair. Returns the addresses to send to, and the networks.
pub(crate) fn join(senders: &[IpAddr], receiver: &[SocketAddr]) -> (String, Vec<Network>) {
    // All sockets at one end use the same port, like the two ends.
    let ports = |addrs: &[IpAddr]| {
        let first = UdpSocket::bind((addrs[0], 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let others = addrs[1..].iter().map(|addr| UdpSocket::bind((*addr, port)).unwrap());
        std::iter::once(first).chain(others).collect::<Vec<_>>()
    };
    let receiver_ips: Vec<IpAddr> = receiver.iter().map(SocketAddr::ip).collect();
    let (front, back) = (ports(&receiver_ips), ports(senders));
    let to: Vec<String> = front.iter().map(|s| s.local_addr().unwrap().to_string()).collect();
    let mut networks = Vec::new();
    // The sender's port is that of its first packet.
    let port = Arc::new(AtomicU64::new(0));
    for ((front, back), (sender, receiver)) in front.into_iter().zip(back).zip(senders.iter().zip(receiver)) {
        let network = Network {
            cut: Arc::default(),
            carried: Arc::default(),
            corrupt: Arc::default(),
            corrupted: Arc::default(),
        };
        networks.push(network.clone());
        let (sender, receiver) = (*sender, *receiver);
        let (front_in, back_out) = (front.try_clone().unwrap(), back.try_clone().unwrap());
        let (there, from) = (network.clone(), port.clone());
        std::thread::spawn(move || {
            let mut number = 0_u64;
            carry(&front_in, &there, |packet, source| {
                number += 1;
                let every = there.corrupt.load(Ordering::Relaxed);
                if every > 0 && number.is_multiple_of(every) {
                    // Any byte: header, checksum or data.
                    packet[number as usize * 7 % packet.len()] ^= 0x10;
                    there.corrupted.fetch_add(1, Ordering::Relaxed);
                }
                from.store(source.port().into(), Ordering::Relaxed);
                there.carried.fetch_add(packet.len() as u64, Ordering::Relaxed);
                // A small delay and a rate limit: the transfer takes some time.
                std::thread::sleep(Duration::from_micros(100));
                let _ = back_out.send_to(packet, receiver);
            });
        });
        let to = port.clone();
        std::thread::spawn(move || {
            carry(&back, &network, |packet, _| {
                let _ = front.send_to(packet, (sender, to.load(Ordering::Relaxed) as u16));
            });
        });
    }
    (to.join(","), networks)
}

fn carry(socket: &UdpSocket, network: &Network, mut send: impl FnMut(&mut [u8], SocketAddr)) {
    let mut buffer = [0; 2048];
    loop {
        // Errors report earlier packets.
        if let Ok((len, source)) = socket.recv_from(&mut buffer)
            && !network.cut.load(Ordering::Relaxed)
        {
            send(&mut buffer[..len], source);
        }
    }
}
