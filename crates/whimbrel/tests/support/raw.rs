//! SCTP peers made by hand, packet by packet, on one UDP socket: what a hostile program would send.

#![allow(unreachable_pub, reason = "a module of several programs")]
#![allow(dead_code, reason = "each program uses its own part")]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use whimbrel_wire::{
    ByteSink, Checksum, ChecksumField, Chunk, CommonHeader, Data, Init, MessageNumber, PacketSink, PacketView,
    Parameters, Payload, Ssn, Tsn,
};

/// The tag that peers made by hand ask for.
pub const TAG: u32 = 7;
/// The first TSN of peers made by hand.
pub const TSN: u32 = 1000;

/// A packet with a right checksum.
pub fn packet(ports: (u16, u16), verification_tag: u32, chunks: &[Chunk<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
    sink.begin(CommonHeader {
        source_port: ports.0,
        destination_port: ports.1,
        verification_tag,
    });
    chunks.iter().for_each(|chunk| sink.push(chunk));
    sink.finish();
    bytes
}

pub fn init() -> Chunk<'static> {
    Chunk::Init(Init {
        initiate_tag: TAG,
        a_rwnd: 65_536,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn(TSN),
        parameters: Parameters::from_wire_bytes(&[]),
    })
}

/// A part of one endless message.
pub fn part(number: u32, payload: &[u8]) -> Chunk<'_> {
    Chunk::Data(Data {
        tsn: Tsn(TSN.wrapping_add(number)),
        stream: 0,
        number: MessageNumber::Ssn(Ssn(0)),
        fsn: 0,
        ppid: 0,
        unordered: false,
        begin: number == 0,
        end: false,
        immediate: false,
        payload: Payload::Bytes(payload),
    })
}

/// How long an answer may take before the question is repeated, and how often it is.
const PATIENCE: Duration = Duration::from_millis(200);
const ATTEMPTS: usize = 50;

/// A UDP socket that speaks to one server.
pub struct Raw {
    pub socket: UdpSocket,
    /// The server's SCTP port.
    pub port: u16,
}

impl Raw {
    /// A socket on this local address.
    pub fn new(local: &str, server: SocketAddr, port: u16) -> io::Result<Raw> {
        let socket = UdpSocket::bind((local, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Raw { socket, port })
    }

    pub fn send(&self, source_port: u16, tag: u32, chunks: &[Chunk<'_>]) -> io::Result<()> {
        self.socket
            .send(&packet((source_port, self.port), tag, chunks))
            .map(drop)
    }

    /// The next packet for this port of ours whose first chunk `pick` likes.
    pub fn receive<T>(&self, source_port: u16, pick: impl Fn(&PacketView<'_>) -> Option<T>) -> io::Result<T> {
        let mut buffer = [0; 65_536];
        loop {
            let len = self.socket.recv(&mut buffer)?;
            let Ok(packet) = PacketView::parse(&buffer[..len], Checksum::Verify) else {
                continue;
            };
            if packet.header().destination_port == source_port
                && let Some(found) = pick(&packet)
            {
                return Ok(found);
            }
        }
    }

    /// An association from this port; gives the server's tag, or nothing if the server refuses.
    pub fn open(&self, source_port: u16) -> io::Result<Option<u32>> {
        let init = packet((source_port, self.port), 0, &[init()]);
        let answer = self.ask(source_port, &init, |packet| match packet.chunks().next() {
            Some(Ok(Chunk::InitAck(ack))) => {
                let cookie = ack.parameters.state_cookie();
                Some(cookie.map(|cookie| (ack.initiate_tag, cookie.to_vec())))
            }
            Some(Ok(Chunk::Abort { .. })) => Some(None),
            _ => None,
        })?;
        let Some((tag, cookie)) = answer else { return Ok(None) };
        let echo = packet((source_port, self.port), tag, &[Chunk::CookieEcho { cookie: &cookie }]);
        self.ask(source_port, &echo, |packet| match packet.chunks().next() {
            Some(Ok(Chunk::CookieAck)) => Some(Some(tag)),
            Some(Ok(Chunk::Abort { .. })) => Some(None),
            _ => None,
        })
    }

    /// Sends until there is an answer: on a busy machine a socket buffer may overflow.
    fn ask<T>(&self, source_port: u16, bytes: &[u8], pick: impl Fn(&PacketView<'_>) -> Option<T>) -> io::Result<T> {
        let mut outcome = Err(io::ErrorKind::TimedOut.into());
        for _ in 0..ATTEMPTS {
            self.socket.send(bytes)?;
            outcome = self.receive(source_port, &pick);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}

/// A socket that sends from many addresses of 127.0.0.0/8, all of which belong to this host. Linux only.
pub struct Forger {
    #[cfg(target_os = "linux")]
    socket: UdpSocket,
    #[cfg(target_os = "linux")]
    to: nix::sys::socket::SockaddrStorage,
}

#[cfg(target_os = "linux")]
impl Forger {
    pub fn new(to: SocketAddr) -> io::Result<Self> {
        Ok(Forger {
            socket: UdpSocket::bind("0.0.0.0:0")?,
            to: to.into(),
        })
    }

    /// Sends a packet from an address that the number chooses.
    pub fn send(&self, number: u32, packet: &[u8]) {
        use nix::libc::{in_addr, in_pktinfo};
        use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
        use std::os::fd::AsRawFd;

        let [_, high, middle, _] = number.to_be_bytes();
        let source = u32::from_ne_bytes([127, 1 + high % 100, middle, 1 + (number % 200) as u8]);
        let from = in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: in_addr { s_addr: source },
            ipi_addr: in_addr { s_addr: 0 },
        };
        let parts = [io::IoSlice::new(packet)];
        let control = [ControlMessage::Ipv4PacketInfo(&from)];
        let socket = self.socket.as_raw_fd();
        // What the buffer has no room for is lost.
        let _ = sendmsg(socket, &parts, &control, MsgFlags::MSG_DONTWAIT, Some(&self.to));
    }
}

#[cfg(not(target_os = "linux"))]
impl Forger {
    pub fn new(_: SocketAddr) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn send(&self, _: u32, _: &[u8]) {}
}
