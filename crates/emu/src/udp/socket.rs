//! One UDP socket of the emulator.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use whimbrel_proto::Ecn;

use super::UdpError;

/// Requested bytes of each buffer: 40 ms at 1 Gbit/s.
const BUFFER: usize = 8 << 20;
/// Maximum number of attempts with a port that the system chose for the first address but that is in use on another.
const PORT_ATTEMPTS: usize = 32;

#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Socket {
    fn bind(addr: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(addr)?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // Only a privileged process may exceed the system's limit. With a smaller buffer packets are dropped if the emulator is
        // late, which the report shows.
        if setsockopt(&io, sockopt::RcvBufForce, &BUFFER).is_err() {
            let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), BUFFER);
        }
        if setsockopt(&io, sockopt::SndBufForce, &BUFFER).is_err() {
            let _ = state.set_send_buffer_size(UdpSockRef::from(&io), BUFFER);
        }
        let local = io.local_addr()?;
        Ok(Socket { io, state, local })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }

    /// Reads a batch; returns the number of buffers filled, 0 if there is nothing.
    pub(super) fn receive(&self, parts: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        loop {
            match self.state.recv(UdpSockRef::from(&self.io), parts, meta) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                // Error reports about earlier packets.
                Err(e) if is_report(&e) => continue,
                other => return other,
            }
        }
    }

    /// Sends packets of `segment` bytes each.
    pub(super) fn send(&self, to: SocketAddr, ecn: Ecn, contents: &[u8], segment: usize) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: codepoint(ecn),
            contents,
            segment_size: (segment < contents.len()).then_some(segment),
            src_ip: None,
        };
        match self.state.try_send(UdpSockRef::from(&self.io), &transmit) {
            // The report may concern an earlier packet; then this one is sent now.
            Err(e) if is_report(&e) => self.state.try_send(UdpSockRef::from(&self.io), &transmit),
            other => other,
        }
    }
}

/// Returns whether an error is a network's report about an earlier packet.
fn is_report(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable};
    let kinds = [
        ConnectionRefused,
        ConnectionReset,
        HostUnreachable,
        Interrupted,
        NetworkUnreachable,
    ];
    kinds.contains(&error.kind())
}

/// Binds sockets. Those with port 0 get a free port, the same for all.
pub(super) fn bind_all(addrs: &[SocketAddr]) -> Result<Vec<Socket>, UdpError> {
    let mut attempts = PORT_ATTEMPTS;
    loop {
        let mut port = 0;
        let mut sockets = Vec::with_capacity(addrs.len());
        let failed = addrs.iter().find_map(|&wanted| {
            let mut addr = wanted;
            if addr.port() == 0 {
                addr.set_port(port);
            }
            match Socket::bind(addr) {
                Ok(socket) => {
                    if wanted.port() == 0 {
                        port = socket.local.port();
                    }
                    sockets.push(socket);
                    None
                }
                Err(source) => Some((wanted, UdpError::Bind { addr, source })),
            }
        });
        let Some((wanted, error)) = failed else {
            return Ok(sockets);
        };
        let UdpError::Bind { source, .. } = &error;
        let chosen = wanted.port() == 0 && port != 0 && source.kind() == io::ErrorKind::AddrInUse;
        attempts -= 1;
        if !chosen || attempts == 0 {
            return Err(error);
        }
    }
}

fn codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

pub(super) fn ecn(codepoint: Option<EcnCodepoint>) -> Ecn {
    match codepoint {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

/// Returns the number of packets that the system dropped because a socket's receive buffer was full; none if the system does not
/// report it.
pub(super) fn overrun<'s>(sockets: impl IntoIterator<Item = &'s Socket>) -> Option<u64> {
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(std::fs::read_to_string);
    let [Ok(v4), v6] = tables else { return None };
    let v6 = v6.unwrap_or_default();
    let sum = sockets.into_iter().map(|socket| {
        let table = if socket.local.is_ipv4() { &v4 } else { &v6 };
        dropped_at(table, socket.local).unwrap_or(0)
    });
    Some(sum.sum())
}

/// Returns the number of drops at a local address in the kernel's table of UDP sockets (`proc(5)`: the address is in hexadecimal,
/// in the byte order of the machine, four bytes at a time; the last column counts drops).
fn dropped_at(table: &str, local: SocketAddr) -> Option<u64> {
    let octets = match local.ip() {
        std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
        std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut wanted = String::new();
    for word in octets.chunks_exact(4) {
        let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        wanted.push_str(&format!("{word:08X}"));
    }
    wanted.push_str(&format!(":{:04X}", local.port()));
    let mut lines = table.lines().map(str::split_whitespace);
    lines.find_map(|mut line| (line.nth(1)? == wanted).then(|| line.last()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_share_a_free_port() {
        let addrs = ["127.0.0.1:0", "127.0.0.2:0"].map(|addr| addr.parse().unwrap());
        let sockets = bind_all(&addrs).unwrap();
        assert_eq!(sockets[0].local.port(), sockets[1].local.port());
        let taken = bind_all(&[sockets[1].local]).map(|_| ()).unwrap_err().to_string();
        assert!(
            taken.starts_with(&format!("cannot listen on UDP {}", sockets[1].local)),
            "{taken}"
        );
    }

    #[test]
    fn the_system_counts_packets_that_do_not_fit_into_a_buffer() {
        let addr = "127.0.0.1:0".parse().unwrap();
        let [receiver, sender] = &bind_all(&[addr]).and_then(|a| Ok([a, bind_all(&[addr])?])).unwrap();
        assert_eq!(overrun(receiver), Some(0));
        // More than the largest buffer.
        for _ in 0..2 * BUFFER / 1000 {
            let _ = sender[0].send(receiver[0].local, Ecn::NotEct, &[0; 1000], 1000);
        }
        assert!(overrun(receiver).unwrap() > 0);
    }
}
