//! Sources that flood a socket with packets of no association, and the filter with which the kernel discards their packets: they then cost
//! no system call and occupy no receive buffer.

use std::net::SocketAddr;

use whimbrel_control::{Span, Time};

/// Sources that are observed at a time, and that are blocked at a time.
const SOURCES: usize = 8;
/// Packets beyond its budget within [`WINDOW`] after which a source is blocked: far more than a peer repeats its INIT.
const NEEDED: u32 = 1000;
const WINDOW: Span = Span::from_secs(1);
/// How long a source is blocked; then it is observed again.
const BLOCK: Span = Span::from_secs(1);

/// A socket of ours and the IP address and UDP port that packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    local: SocketAddr,
    remote: SocketAddr,
}

#[derive(Debug, Default)]
pub(crate) struct Floods {
    /// Sources of packets beyond their budget, counted since `begin`. Where more sources than places compete, those with many packets stay.
    suspects: Vec<(Source, u32)>,
    begin: Time,
    blocked: Vec<(Source, Time)>,
}

impl Floods {
    /// Counts a packet beyond the budget of its source; returns whether the source floods.
    pub(crate) fn note(&mut self, now: Time, local: SocketAddr, remote: SocketAddr) -> bool {
        if now.since(self.begin) >= WINDOW {
            self.begin = now;
            self.suspects.clear();
        }
        let source = Source { local, remote };
        if let Some((_, count)) = self.suspects.iter_mut().find(|(suspect, _)| *suspect == source) {
            *count += 1;
            return *count >= NEEDED;
        }
        if self.suspects.len() < SOURCES {
            self.suspects.push((source, 1));
        } else {
            self.suspects.iter_mut().for_each(|(_, count)| *count -= 1);
            self.suspects.retain(|(_, count)| *count > 0);
        }
        false
    }

    /// Blocks a source, unless it is blocked or too many are; returns whether the filter of its socket changes.
    pub(crate) fn block(&mut self, now: Time, local: SocketAddr, remote: SocketAddr) -> bool {
        let source = Source { local, remote };
        self.suspects.retain(|(suspect, _)| *suspect != source);
        let is_new = self.blocked.len() < SOURCES && self.blocked.iter().all(|(blocked, _)| *blocked != source);
        if is_new {
            self.blocked.push((source, now + BLOCK));
        }
        is_new
    }

    /// Releases the sources whose time is over or that `is_peer` recognises; calls `changed` with the address of each socket whose filter
    /// changes.
    pub(crate) fn release(
        &mut self,
        now: Time,
        is_peer: impl Fn(SocketAddr) -> bool,
        mut changed: impl FnMut(&Self, SocketAddr),
    ) {
        let is_over = |(source, until): &(Source, Time)| *until <= now || is_peer(source.remote);
        while let Some(place) = self.blocked.iter().position(is_over) {
            let (source, _) = self.blocked.swap_remove(place);
            changed(self, source.local);
        }
    }

    /// When a source is to be released; none if none is blocked.
    pub(crate) fn next_release(&self) -> Option<Time> {
        self.blocked.iter().map(|(_, until)| *until).min()
    }

    /// The sources that are blocked on a socket.
    pub(crate) fn blocked(&self, local: SocketAddr) -> impl Iterator<Item = SocketAddr> + '_ {
        let of_socket = self.blocked.iter().filter(move |(source, _)| source.local == local);
        of_socket.map(|(source, _)| source.remote)
    }
}

/// The program of a filter (classic BPF) that discards packets from these sources and takes all others.
#[cfg(target_os = "linux")]
pub(crate) fn program(sources: impl Iterator<Item = SocketAddr>) -> Vec<socket2::SockFilter> {
    use std::net::IpAddr;

    use socket2::SockFilter;

    // linux/bpf_common.h
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    // linux/filter.h: offsets from here on count from the IP header, others from the UDP header.
    const NETWORK: u32 = -0x10_0000_i32 as u32;

    let mut program = Vec::new();
    for source in sources {
        let (version, addr_offset, addr) = match source.ip() {
            IpAddr::V4(ip) => (0x40, 12, ip.octets().to_vec()),
            IpAddr::V6(ip) => (0x60, 8, ip.octets().to_vec()),
        };
        let mut tests = vec![(LOAD_BYTE, NETWORK, Some(0xf0), version)];
        for (offset, word) in (addr_offset..).step_by(4).zip(addr.chunks_exact(4)) {
            let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
            tests.push((LOAD_WORD, NETWORK + offset, None, word));
        }
        tests.push((LOAD_HALF, 0, None, source.port().into()));
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
        program.push(SockFilter::new(RETURN, 0, 0, 0));
    }
    program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_source_far_beyond_its_budget_floods_and_others_do_not() {
        let mut floods = Floods::default();
        // Nine other sources compete for eight places.
        let first = (0..5000).find(|round| {
            for other in 1..=9 {
                assert!(!floods.note(at(100), addr(1), addr(100 + other)));
            }
            (0..20).any(|_| floods.note(at(100), addr(1), addr(2))) && *round > 0
        });
        assert!(first.is_some_and(|rounds| rounds < 200), "{first:?}");
    }

    #[test]
    fn packets_beyond_the_budget_count_within_a_second() {
        let mut floods = Floods::default();
        let flooded = (0..10_000).any(|number| floods.note(at(2 * number), addr(1), addr(2)));
        assert!(!flooded, "500 a second");
    }

    #[test]
    fn a_block_ends_in_time_or_with_an_association() {
        let mut floods = Floods::default();
        assert!(floods.block(at(0), addr(1), addr(2)) && !floods.block(at(1), addr(1), addr(2)));
        assert!(floods.block(at(500), addr(1), addr(3)));
        assert_eq!(floods.next_release(), Some(at(1000)));
        floods.release(at(999), |_| false, |_, local| panic!("{local} changed"));
        floods.release(
            at(1000),
            |_| false,
            |floods, _| assert_eq!(floods.blocked(addr(1)).count(), 1),
        );
        floods.release(at(1001), |remote| remote == addr(3), |_, _| {});
        assert_eq!(floods.blocked(addr(1)).count(), 0);
        for port in 0..20 {
            assert_eq!(floods.block(at(2000), addr(1), addr(port)), port < 8);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_filter_discards_what_comes_from_its_sources_only() {
        use std::net::UdpSocket;

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
            socket.attach_filter(&program(blocked)).unwrap();
            let free: Vec<_> = addrs.iter().copied().skip(1).step_by(2).collect();
            assert_eq!(arrived(), free, "{local}");
            socket.detach_filter().unwrap();
            assert_eq!(arrived(), addrs);
        }
    }
}
