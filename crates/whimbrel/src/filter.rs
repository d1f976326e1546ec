//! The filter with which the kernel discards unwanted packets: they then cost no system call and occupy no receive buffer. Raw sockets, which get
//! the packets of all stacks of the host, take those for one SCTP port.

use std::net::{IpAddr, SocketAddr};

use socket2::SockFilter;
use whimbrel_wire::ChunkType;

use crate::transport::{Strangers, Unwanted};

// linux/bpf_common.h
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
/// The same at an offset from the index register.
const LOAD_WORD_INDEXED: u16 = 0x40;
const LOAD_HALF_INDEXED: u16 = 0x48;
const LOAD_BYTE_INDEXED: u16 = 0x50;
const SET_INDEX: u16 = 0x01;
/// Sets the index register to the length of the IPv4 header at an offset.
const SET_INDEX_TO_HEADER_LEN: u16 = 0xb1;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
// linux/filter.h: offsets from here on count from the IP header, others from where the socket's protocol begins: the UDP header, or for raw
// sockets what they deliver.
const NETWORK: u32 = -0x10_0000_i32 as u32;
/// linux/filter.h: loads a random number.
const RANDOM: u32 = -0x1000_i32 as u32 + 56;
const DISCARD: u32 = 0;
const TAKE: u32 = u32::MAX;
/// Length of a UDP header, after which the SCTP packet begins.
const UDP: u32 = 8;

/// What a socket gets. Raw sockets take the packets to an SCTP port, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// UDP header, SCTP packet.
    Udp,
    /// IPv4 header, SCTP packet.
    RawV4(Option<u16>),
    /// SCTP packet.
    RawV6(Option<u16>),
}

/// Returns the program that discards everything.
pub(crate) fn nothing() -> Vec<SockFilter> {
    vec![result(DISCARD)]
}

/// Returns the program (classic BPF) that discards unwanted packets and takes all others; it is empty if it would take everything. A packet that
/// is too short for a load is discarded.
pub(crate) fn program(unwanted: &Unwanted<'_>, layout: Layout) -> Vec<SockFilter> {
    let (sctp, port) = match layout {
        Layout::Udp => (SockFilter::new(SET_INDEX, 0, 0, UDP), None),
        Layout::RawV4(port) => (SockFilter::new(SET_INDEX_TO_HEADER_LEN, 0, 0, 0), port),
        Layout::RawV6(port) => (SockFilter::new(SET_INDEX, 0, 0, 0), port),
    };
    if *unwanted == Unwanted::default() && port.is_none() {
        return Vec::new();
    }
    // From here on, indexed offsets count from the SCTP header.
    let mut program = vec![sctp];
    if let Some(port) = port {
        program.extend([
            SockFilter::new(LOAD_HALF_INDEXED, 0, 0, 2),
            SockFilter::new(JUMP_IF_EQUAL, 1, 0, port.into()),
            result(DISCARD),
        ]);
    }
    let has_ports = layout == Layout::Udp;
    unwanted
        .sources
        .iter()
        .for_each(|source| discard_source(&mut program, *source, has_ports));
    match &unwanted.strangers {
        Some(strangers) => discard_strangers(&mut program, strangers),
        None => program.push(result(TAKE)),
    }
    program
}

fn result(result: u32) -> SockFilter {
    SockFilter::new(RETURN, 0, 0, result)
}

fn discard_source(program: &mut Vec<SockFilter>, source: SocketAddr, has_ports: bool) {
    let (version, addr_offset, addr) = match source.ip() {
        IpAddr::V4(ip) => (0x40, 12, ip.octets().to_vec()),
        IpAddr::V6(ip) => (0x60, 8, ip.octets().to_vec()),
    };
    let mut tests = vec![(LOAD_BYTE, NETWORK, Some(0xf0), version)];
    for (offset, word) in (addr_offset..).step_by(4).zip(addr.chunks_exact(4)) {
        let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        tests.push((LOAD_WORD, NETWORK + offset, None, word));
    }
    if has_ports {
        tests.push((LOAD_HALF, 0, None, source.port().into()));
    }
    let len = |test: &(u16, u32, Option<u32>, u32)| 2 + u8::from(test.2.is_some());
    // Behind the last test stands the return.
    let mut rest: u8 = tests.iter().map(len).sum::<u8>() + 1;
    for test in &tests {
        let (load, offset, mask, value) = *test;
        rest -= len(test);
        program.push(SockFilter::new(load, 0, 0, offset));
        program.extend(mask.map(|mask| SockFilter::new(AND, 0, 0, mask)));
        program.push(SockFilter::new(JUMP_IF_EQUAL, 0, rest, value));
    }
    program.push(result(DISCARD));
}

fn discard_strangers(program: &mut Vec<SockFilter>, strangers: &Strangers<'_>) {
    program.push(SockFilter::new(LOAD_WORD_INDEXED, 0, 0, 4));
    for tag in strangers.tags {
        program.extend([SockFilter::new(JUMP_IF_EQUAL, 0, 1, *tag), result(TAKE)]);
    }
    program.push(SockFilter::new(LOAD_BYTE_INDEXED, 0, 0, 12));
    for (chunk_type, is_sampled) in [
        (ChunkType::INIT, strangers.init),
        (ChunkType::COOKIE_ECHO, strangers.cookie_echo),
        (ChunkType::AUTH, strangers.cookie_echo),
    ] {
        let chosen = if is_sampled {
            Vec::from(sample())
        } else {
            vec![result(TAKE)]
        };
        let skip = chosen.len() as u8;
        program.push(SockFilter::new(JUMP_IF_EQUAL, 0, skip, chunk_type.0.into()));
        program.extend(chosen);
    }
    program.push(result(if strangers.out_of_the_blue { DISCARD } else { TAKE }));
}

/// Takes one of eight packets.
fn sample() -> [SockFilter; 5] {
    [
        SockFilter::new(LOAD_WORD, 0, 0, RANDOM),
        SockFilter::new(AND, 0, 0, 7),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, 0),
        result(TAKE),
        result(DISCARD),
    ]
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;

    use socket2::{Domain, Protocol, Type};

    use super::*;

    #[test]
    fn the_filter_discards_what_comes_from_its_sources_only() {
        for local in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(server) = UdpSocket::bind(local) else {
                whimbrel_testkit::not_run_in_part(module_path!(), &format!("cannot bind {local}"));
                continue;
            };
            let to = |ip: &str| SocketAddr::new(ip.parse().unwrap(), server.local_addr().unwrap().port());
            let server_ip = if local.starts_with("127") { "127.0.0.1" } else { "::1" };
            let first = UdpSocket::bind((server_ip, 0)).unwrap();
            // Its port differs from that of the first in the high byte only.
            let port = |high: u16| first.local_addr().unwrap().port() ^ (high << 8);
            let twin = (1..=255)
                .filter(|high| port(*high) >= 1024)
                .find_map(|high| UdpSocket::bind((server_ip, port(high))).ok());
            let mut clients = vec![(server_ip, first), (server_ip, twin.unwrap())];
            if local == "[::]:0" {
                clients.push(("127.0.0.1", UdpSocket::bind("127.0.0.1:0").unwrap()));
                clients.push(("127.0.0.1", UdpSocket::bind("127.0.0.2:0").unwrap()));
            }
            let addrs: Vec<_> = clients.iter().map(|(_, client)| client.local_addr().unwrap()).collect();
            server.set_nonblocking(true).unwrap();
            // Every other one is blocked.
            let blocked = addrs.iter().copied().step_by(2);
            let socket = socket2::SockRef::from(&server);
            let arrived = || {
                for (ip, client) in &clients {
                    client.send_to(b"packet", to(ip)).unwrap();
                }
                let from = || server.recv_from(&mut [0; 16]).ok().map(|(_, from)| from);
                let canonical = |from: SocketAddr| SocketAddr::new(from.ip().to_canonical(), from.port());
                std::iter::from_fn(from).map(canonical).collect::<Vec<_>>()
            };
            assert_eq!(arrived(), addrs);
            let blocked: Vec<_> = blocked.collect();
            let unwanted = Unwanted {
                sources: &blocked,
                strangers: None,
            };
            socket.attach_filter(&program(&unwanted, Layout::Udp)).unwrap();
            let free: Vec<_> = addrs.iter().copied().skip(1).step_by(2).collect();
            assert_eq!(arrived(), free, "{local}");
            socket.detach_filter().unwrap();
            assert_eq!(arrived(), addrs);
        }
    }

    #[test]
    fn the_filter_takes_packets_of_associations_and_what_opens_others() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        server.set_nonblocking(true).unwrap();
        let packet = |tag: u32, chunk_type: ChunkType| {
            let mut bytes = vec![0; 16];
            bytes[4..8].copy_from_slice(&tag.to_be_bytes());
            bytes[12] = chunk_type.0;
            bytes
        };
        let arrived = |bytes: &[u8], times: usize| {
            (0..times)
                .filter(|_| {
                    client.send(bytes).unwrap();
                    server.recv(&mut [0; 32]).is_ok()
                })
                .count()
        };
        let tags: Vec<u32> = (0..300).map(|number| number * 7919 + 1).collect();
        let strangers = Strangers {
            tags: &tags,
            init: false,
            cookie_echo: false,
            out_of_the_blue: true,
        };
        let attach = |strangers| {
            let unwanted = Unwanted {
                sources: &[],
                strangers: Some(strangers),
            };
            socket2::SockRef::from(&server)
                .attach_filter(&program(&unwanted, Layout::Udp))
                .unwrap();
        };
        attach(strangers);
        for tag in [tags[0], tags[150], tags[299]] {
            assert_eq!(arrived(&packet(tag, ChunkType::DATA), 5), 5);
            assert_eq!(arrived(&packet(tag ^ 1 << 31, ChunkType::DATA), 5), 0);
        }
        for chunk_type in [ChunkType::INIT, ChunkType::COOKIE_ECHO, ChunkType::AUTH] {
            assert_eq!(arrived(&packet(0, chunk_type), 5), 5);
        }
        for unwanted in [ChunkType::ABORT, ChunkType::SHUTDOWN, ChunkType::SHUTDOWN_ACK] {
            assert_eq!(arrived(&packet(9, unwanted), 5), 0);
        }
        for short in [0, 4, 8, 12] {
            assert_eq!(arrived(&packet(9, ChunkType::DATA)[..short], 5), 0, "{short} bytes");
        }
        attach(Strangers {
            init: true,
            out_of_the_blue: false,
            ..strangers
        });
        let inits = arrived(&packet(0, ChunkType::INIT), 4000);
        assert!((300..800).contains(&inits), "{inits} of 4000, 500 are expected");
        assert_eq!(arrived(&packet(0, ChunkType::COOKIE_ECHO), 5), 5);
        assert_eq!(arrived(&packet(9, ChunkType::ABORT), 5), 5);
    }

    #[test]
    fn raw_sockets_take_the_packets_to_their_port() {
        const PORT: u16 = 4711;
        let raw = |ip: IpAddr| {
            let domain = if ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
            let socket = socket2::Socket::new(domain, Type::RAW, Some(Protocol::from(132)));
            socket.and_then(|socket| {
                socket.bind(&SocketAddr::new(ip, 0).into())?;
                Ok(UdpSocket::from(OwnedFd::from(socket)))
            })
        };
        let ips = ["127.0.0.9", "::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        for (ip, layout) in ips.into_iter().zip([Layout::RawV4, Layout::RawV6]) {
            let sockets = raw(ip).and_then(|server| Ok((server, raw(ip)?)));
            let Ok((server, client)) = sockets else {
                whimbrel_testkit::not_run_in_part(module_path!(), &format!("no raw socket at {ip}"));
                continue;
            };
            server.set_nonblocking(true).unwrap();
            // Without a port and unwanted packets, it would take all.
            assert!(program(&Unwanted::default(), layout(None)).is_empty());
            let attach = |unwanted: &Unwanted<'_>, port| {
                let program = program(unwanted, layout(port));
                socket2::SockRef::from(&server).attach_filter(&program).unwrap();
            };
            let takes = |port: u16, tag: u32, chunk_type: ChunkType, len: usize| {
                let mut packet = [0; 16];
                packet[2..4].copy_from_slice(&port.to_be_bytes());
                packet[4..8].copy_from_slice(&tag.to_be_bytes());
                packet[12] = chunk_type.0;
                while server.recv(&mut [0; 64]).is_ok() {}
                client.send_to(&packet[..len], SocketAddr::new(ip, 0)).unwrap();
                server.recv(&mut [0; 64]).is_ok()
            };
            attach(&Unwanted::default(), Some(PORT));
            assert!(takes(PORT, 1, ChunkType::DATA, 16), "{ip}");
            assert!(!takes(PORT ^ 1, 1, ChunkType::DATA, 16) && !takes(PORT ^ 0x100, 1, ChunkType::DATA, 16));
            assert!(takes(PORT, 0, ChunkType::DATA, 4) && !takes(PORT, 0, ChunkType::DATA, 3));
            let strangers = Strangers {
                tags: &[7],
                init: false,
                cookie_echo: false,
                out_of_the_blue: true,
            };
            for port in [Some(PORT), None] {
                let unwanted = Unwanted {
                    sources: &[],
                    strangers: Some(strangers),
                };
                attach(&unwanted, port);
                assert!(
                    takes(PORT, 7, ChunkType::DATA, 16) && takes(PORT, 0, ChunkType::INIT, 16),
                    "{ip}"
                );
                assert!(
                    !takes(PORT, 8, ChunkType::DATA, 16) && !takes(PORT, 8, ChunkType::DATA, 12),
                    "{ip}"
                );
                assert_eq!(takes(PORT ^ 1, 7, ChunkType::DATA, 16), port.is_none());
            }
            // A source is an address: there are no ports.
            let other = SocketAddr::new(if ip.is_ipv4() { "127.0.0.10" } else { "fd00::1" }.parse().unwrap(), 0);
            for (source, expected) in [(SocketAddr::new(ip, 0), false), (other, true)] {
                let unwanted = Unwanted {
                    sources: &[source],
                    strangers: None,
                };
                attach(&unwanted, Some(PORT));
                assert_eq!(takes(PORT, 7, ChunkType::DATA, 16), expected, "{source}");
            }
        }
    }
}
