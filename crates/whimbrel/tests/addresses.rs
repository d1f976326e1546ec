//! Addresses of the host that come and go, and reports of its network, in a network namespace of the test.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::io::{IoSliceMut, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::transport::{Arrival, Datagrams, Socket, Transport};
use whimbrel::{
    AddressChange, AddressWatch, Association, Ecn, Listener, Message, PathChange, PathEvents, Span, Stack, StackConfig,
    Trouble, Udp,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a future on a thread in a network namespace of its own, whose loopback interface is up.
fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            ip("link set lo up");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(test());
        });
    });
}

fn ip(arguments: &str) {
    assert!(
        Command::new("ip")
            .args(arguments.split(' '))
            .status()
            .unwrap()
            .success(),
        "ip {arguments}"
    );
}

fn config(addr: &str) -> StackConfig {
    let mut config = StackConfig::local([addr.parse().unwrap()]);
    config.association.dynamic_addresses = true;
    config.association.hb_interval = Span::from_secs(1);
    config
}

async fn pair() -> (Stack, Listener, Association, Association) {
    let listener = Listener::bind(config("10.9.0.1:0")).unwrap();
    let stack = Stack::bind(config("10.9.0.2:0")).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let (client, server) = tokio::join!(stack.connect(&addrs, port), listener.accept());
    (stack, listener, client.unwrap(), server.unwrap())
}

async fn until(events: &mut PathEvents, local: &str, wanted: PathChange) {
    let local: IpAddr = local.parse().unwrap();
    loop {
        let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
        if event.local.ip() == local && event.change == wanted {
            return;
        }
    }
}

#[test]
fn a_stack_that_follows_the_host_adds_and_removes_addresses() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        ip("addr add 10.9.0.1/24 dev lo");
        ip("addr add 10.9.0.2/24 dev lo");
        let (stack, _listener, client, server) = pair().await;
        let mut watch = AddressWatch::new().unwrap();
        stack.follow_addresses(|ip| ip.to_string() != "10.9.0.99").unwrap();
        let mut events = client.path_events();
        ip("addr add 10.9.0.99/24 dev lo");
        ip("addr add 10.9.0.3/24 dev lo");
        until(&mut events, "10.9.0.3", PathChange::Confirmed).await;
        assert!(
            client
                .local_addrs()
                .iter()
                .all(|addr| addr.ip().to_string() != "10.9.0.99"),
            "not wanted"
        );
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.push(timeout(PATIENCE, watch.next()).await.unwrap().unwrap());
        }
        let added = |ip: &str| AddressChange::Added(ip.parse().unwrap());
        assert_eq!(seen, [added("10.9.0.99"), added("10.9.0.3")]);
        // The first address leaves, and the association lives on from the new one.
        ip("addr del 10.9.0.2/24 dev lo");
        until(&mut events, "10.9.0.2", PathChange::Removed).await;
        let gone = timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
        assert_eq!(gone, AddressChange::Removed("10.9.0.2".parse().unwrap()));
        client.send(Message::new(0, "from elsewhere")).await.unwrap();
        let message = timeout(PATIENCE, server.recv()).await.unwrap().unwrap().unwrap();
        assert_eq!(message.data, b"from elsewhere");
    });
}

#[test]
fn reports_of_the_network_are_path_events_and_end_nothing() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        ip("addr add 10.9.0.1/24 dev lo");
        ip("addr add 10.9.0.2/24 dev lo");
        let (_stack, listener, client, server) = pair().await;
        let mut events = client.path_events();
        ip("route del local 10.9.0.1 dev lo table local");
        ip("route add unreachable 10.9.0.1 table local");
        client.send(Message::new(0, "later")).await.unwrap();
        until(&mut events, "10.9.0.2", PathChange::Trouble(Trouble::HostUnreachable)).await;
        ip("route del unreachable 10.9.0.1 table local");
        ip("route add local 10.9.0.1 dev lo table local");
        let message = timeout(PATIENCE, server.recv()).await.unwrap().unwrap().unwrap();
        assert_eq!(message.data, b"later");
        drop(listener);
    });
}

/// Datagrams that an interface was asked to send.
fn sent_by(interface: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix(&format!("{interface}:")))
        .unwrap();
    line.split_whitespace().nth(9).unwrap().parse().unwrap()
}

async fn send_to(socket: &dyn Socket, remote: &str) {
    let datagrams = Datagrams {
        remote: remote.parse().unwrap(),
        ecn: Ecn::NotEct,
        bytes: b"datagram",
        segment: 8,
        fragment: false,
        probes_mtu: false,
    };
    std::future::poll_fn(|cx| socket.poll_send(cx, &datagrams))
        .await
        .unwrap();
}

/// An interface without a host at its other end, with this address and a neighbour that it need not look for.
fn interface(name: &str, addr: &str, neighbour: &str) {
    ip(&format!("link add {name} type veth peer name {name}-out"));
    // Without a link-local address the kernel sends nothing of its own.
    ip(&format!("link set {name} addr 02:00:00:00:00:01 addrgenmode none up"));
    ip(&format!("link set {name}-out addrgenmode none up"));
    ip(&format!("addr add {addr} dev {name}"));
    ip(&format!("neigh add {neighbour} lladdr 02:00:00:00:00:02 dev {name}"));
}

/// Two interfaces, the first with a default route, and a peer behind either.
fn two_networks() {
    interface("wifi", "10.1.0.1/24", "192.0.2.1");
    interface("lte", "10.2.0.1/24", "192.0.2.1");
    ip("route add default dev wifi metric 10");
}

#[test]
fn packets_leave_by_the_interface_of_their_source_address() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        two_networks();
        let config = StackConfig::default();
        let bind = |addr: &str| Udp.bind(addr.parse().unwrap(), &config).unwrap();
        let (wifi, lte) = (bind("10.1.0.1:0"), bind("10.2.0.1:0"));
        let mut report = lte.report();
        // Only one network reaches everything: the routing table decides.
        let before = (sent_by("wifi"), sent_by("lte"));
        send_to(&*lte, "192.0.2.1:9").await;
        assert_eq!((sent_by("wifi") - before.0, sent_by("lte") - before.1), (1, 0));
        // The second network gets its default route while the socket is open.
        ip("route add default dev lte metric 20");
        let _ = timeout(Duration::from_millis(300), &mut report).await;
        let before = (sent_by("wifi"), sent_by("lte"));
        for _ in 0..3 {
            send_to(&*lte, "192.0.2.1:9").await;
            send_to(&*wifi, "192.0.2.1:9").await;
        }
        assert_eq!((sent_by("wifi") - before.0, sent_by("lte") - before.1), (3, 3));
        // Addresses of this host are reached inside it.
        let before = (sent_by("wifi"), sent_by("lte"));
        send_to(&*lte, &wifi.local_addr().to_string()).await;
        send_to(&*lte, "192.0.2.1:9").await;
        assert_eq!((sent_by("wifi") - before.0, sent_by("lte") - before.1), (0, 1));
        let mut buffer = vec![0; 65_536];
        let mut arrivals = [Arrival {
            remote: lte.local_addr(),
            len: 0,
            stride: 0,
            ecn: Ecn::NotEct,
        }];
        let mut arrive = |cx: &mut Context<'_>| wifi.poll_recv(cx, &mut [IoSliceMut::new(&mut buffer)], &mut arrivals);
        let count = timeout(PATIENCE, std::future::poll_fn(&mut arrive))
            .await
            .unwrap()
            .unwrap();
        assert_eq!((count, arrivals[0].remote, arrivals[0].len), (1, lte.local_addr(), 8));
        // The network is lost again.
        ip("route del default dev lte metric 20");
        let _ = timeout(Duration::from_millis(300), &mut report).await;
        let before = (sent_by("wifi"), sent_by("lte"));
        send_to(&*lte, "192.0.2.1:9").await;
        assert_eq!((sent_by("wifi") - before.0, sent_by("lte") - before.1), (1, 0));
    });
}

/// Which of two interfaces most of ten datagrams leave by. An IPv6 interface sends a few packets of its own.
async fn way(socket: &dyn Socket, remote: &str) -> &'static str {
    let before = (sent_by("wifi"), sent_by("lte"));
    for _ in 0..10 {
        send_to(socket, remote).await;
    }
    match (sent_by("wifi") - before.0, sent_by("lte") - before.1) {
        (10.., ..5) => "wifi",
        (..5, 10..) => "lte",
        other => panic!("{other:?} packets"),
    }
}

#[test]
fn more_specific_routes_and_rules_decide_before_the_source_address() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        two_networks();
        ip("route add default dev lte metric 20");
        let config = StackConfig::default();
        let bind = || Udp.bind("10.2.0.1:0".parse().unwrap(), &config).unwrap();
        assert_eq!(way(&*bind(), "192.0.2.1:9").await, "lte");
        // A tunnel that takes half of all addresses, as some VPNs do.
        ip("route add 128.0.0.0/1 dev wifi");
        assert_eq!(way(&*bind(), "192.0.2.1:9").await, "wifi", "more specific");
        ip("route del 128.0.0.0/1 dev wifi");
        assert_eq!(way(&*bind(), "192.0.2.1:9").await, "lte");
        // One that has a table of its own.
        let has_rules = Command::new("ip").args(["rule", "list"]).status().unwrap().success();
        whimbrel_testkit::needs!(has_rules.then_some(()).ok_or("the kernel has one routing table only"));
        ip("route add default dev wifi table 51820");
        ip("rule add not fwmark 51820 table 51820");
        assert_eq!(way(&*bind(), "192.0.2.1:9").await, "wifi", "a rule");
    });
}

#[test]
fn ipv6_packets_leave_by_the_interface_of_their_source_among_routes_of_equal_metric() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    whimbrel_testkit::needs!(whimbrel_testkit::ipv6());
    in_namespace(|| async {
        interface("wifi", "2001:db8:1::1/64 nodad", "2001:db8:9::1");
        interface("lte", "2001:db8:2::1/64 nodad", "2001:db8:9::1");
        ip("-6 route add default dev wifi metric 10");
        let config = StackConfig::default();
        let bind = |addr: &str| Udp.bind(addr.parse().unwrap(), &config).unwrap();
        let lte = || bind("[2001:db8:2::1]:0");
        assert_eq!(way(&*lte(), "[2001:db8:9::1]:9").await, "wifi", "no other route");
        ip("-6 route append default dev lte metric 10");
        assert_eq!(way(&*lte(), "[2001:db8:9::1]:9").await, "lte");
        assert_eq!(way(&*bind("[2001:db8:1::1]:0"), "[2001:db8:9::1]:9").await, "wifi");
        // The kernel takes the better metric whatever the socket asks for.
        ip("-6 route del default dev lte metric 10");
        ip("-6 route add default dev lte metric 20");
        assert_eq!(way(&*lte(), "[2001:db8:9::1]:9").await, "wifi");
    });
}

/// Sends an ICMP message of this type and code that quotes a datagram of ours.
fn forge_icmp(kind: u8, code: u8, quoted_from: SocketAddr, quoted_to: SocketAddr) {
    forge_icmp_with(kind, code, 0, quoted_from, quoted_to, &[]);
}

/// Forges an ICMP message of this kind with the MTU of the next hop and this much of the datagram.
fn forge_icmp_with(kind: u8, code: u8, mtu: u16, quoted_from: SocketAddr, quoted_to: SocketAddr, quoted: &[u8]) {
    use socket2::{Domain, Protocol, Socket, Type};
    let (IpAddr::V4(from), IpAddr::V4(to)) = (quoted_from.ip(), quoted_to.ip()) else {
        panic!("IPv4")
    };
    let [high, low] = mtu.to_be_bytes();
    let mut message = vec![kind, code, 0, 0, 0, 0, high, low];
    // RFC 792: the IP header and 8 bytes of the datagram.
    message.extend([0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0]);
    message.extend(from.octets());
    message.extend(to.octets());
    message.extend(quoted_from.port().to_be_bytes());
    message.extend(quoted_to.port().to_be_bytes());
    message.extend([0, 16, 0, 0]);
    message.extend(quoted);
    let sum = message
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    message[2..4].copy_from_slice(&(!(folded as u16 + (folded >> 16) as u16)).to_be_bytes());
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
    socket
        .send_to(&message, &SocketAddr::new(quoted_from.ip(), 0).into())
        .unwrap();
}

// [6951:5.5-1]
#[test]
fn forged_icmp_of_any_kind_ends_nothing() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        ip("addr add 10.9.0.1/24 dev lo");
        ip("addr add 10.9.0.2/24 dev lo");
        let (_stack, listener, client, server) = pair().await;
        let ends = (listener.stack().local_addrs()[0], "10.9.0.77:9".parse().unwrap());
        // Destination unreachable, source quench, redirect, time exceeded, parameter problem (RFC 792, RFC 1812).
        let kinds = [(3, 16), (4, 1), (5, 4), (11, 2), (12, 3)];
        for (kind, codes) in kinds {
            for code in 0..codes {
                forge_icmp(kind, code, ends.0, ends.1);
                client.send(Message::new(0, vec![kind, code])).await.unwrap();
                let message = timeout(PATIENCE, server.recv()).await.unwrap();
                let message = message
                    .unwrap_or_else(|error| panic!("ICMP {kind}/{code}: {error}"))
                    .unwrap();
                assert_eq!(message.data, [kind, code]);
                server.send(Message::new(0, "answer")).await.unwrap();
                let answer = timeout(PATIENCE, client.recv()).await.unwrap().unwrap().unwrap();
                assert_eq!(answer.data, b"answer");
            }
        }
    });
}

// [9260:10-5, 10-6]
#[test]
fn section_10_a_report_of_a_packet_that_is_too_big_counts_with_the_verification_tag() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        ip("addr add 10.9.0.1/24 dev lo");
        ip("addr add 10.9.0.2/24 dev lo");
        let udp = Some(socket2::Protocol::UDP);
        let mut tap = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, udp).unwrap();
        let (_stack, _listener, client, server) = pair().await;
        let ends = (client.local_addrs()[0], client.peer_addrs()[0]);
        client.send(Message::new(0, "with a tag")).await.unwrap();
        timeout(PATIENCE, server.recv()).await.unwrap().unwrap().unwrap();
        // Ports and Verification Tag of the latest packet to the server; the headers of IP and UDP precede them.
        let mut quoted = [0; 8];
        let mut packet = [0; 2000];
        tap.set_nonblocking(true).unwrap();
        while tap.read(&mut packet).is_ok() {
            if packet[20..22] == ends.0.port().to_be_bytes() {
                quoted.copy_from_slice(&packet[28..36]);
            }
        }
        mtu_is_found(&client, &server).await;
        let mut other = quoted;
        other[7] ^= 1;
        for without in [&other[..], &quoted[..6], &[]] {
            forge_icmp_with(3, 4, 1300, ends.0, ends.1, without);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(client.paths()[0].mtu, 65535, "forged");
        forge_icmp_with(3, 4, 1400, ends.0, ends.1, &quoted);
        mtu_becomes(&client, 1400).await;
    });
}

#[test]
fn an_ipv6_address_is_reported_when_it_can_be_bound() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    whimbrel_testkit::needs!(whimbrel_testkit::ipv6());
    in_namespace(|| async {
        ip("link add left type veth peer name right");
        ip("link set left up");
        ip("link set right up");
        let mut watch = AddressWatch::new().unwrap();
        ip("addr add 2001:db8::2/64 dev left");
        let added = timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
        assert_eq!(added, AddressChange::Added("2001:db8::2".parse().unwrap()));
        std::net::UdpSocket::bind("[2001:db8::2]:0").unwrap();
    });
}

#[test]
fn tasks_that_follow_addresses_end_with_their_stack() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        let stack = Stack::bind(config("127.0.0.1:0")).unwrap();
        let follower = stack.clone().follow_addresses(|_| true).unwrap();
        tokio::task::yield_now().await;
        assert!(!follower.is_finished());
        drop(stack);
        let ended = async {
            while !follower.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, ended).await.unwrap();
    });
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // proc(5): user time and system time are fields 14 and 15, in hundredths of a second; the name before them may have spaces.
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<u64>().unwrap();
    Duration::from_millis(10 * (ticks(12) + ticks(13)))
}

#[test]
fn a_full_send_buffer_costs_no_processor_time_after_an_icmp_error() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        interface("slow", "10.1.0.1/24", "10.1.0.2");
        let shaped = Command::new("tc")
            .args("qdisc add dev slow root tbf rate 80kbit burst 2kb limit 10mb".split(' '))
            .status();
        whimbrel_testkit::needs!(match shaped {
            Ok(status) if status.success() => Ok(()),
            _ => Err("the kernel has no token bucket filter (tc qdisc tbf)".to_owned()),
        });
        let config = StackConfig {
            socket_buffer: 64 * 1024,
            ..StackConfig::default()
        };
        let socket = Udp.bind("10.1.0.1:0".parse().unwrap(), &config).unwrap();
        forge_icmp(3, 3, socket.local_addr(), "10.1.0.2:9".parse().unwrap());
        let bytes = [0; 1000];
        let datagrams = Datagrams {
            remote: "10.1.0.2:9".parse().unwrap(),
            ecn: Ecn::NotEct,
            bytes: &bytes,
            segment: bytes.len(),
            fragment: false,
            probes_mtu: false,
        };
        let mut sent = 0;
        let flood = async {
            loop {
                let _ = std::future::poll_fn(|cx| socket.poll_send(cx, &datagrams)).await;
                sent += 1;
            }
        };
        let start = cpu_time();
        let _: Result<(), _> = timeout(Duration::from_secs(2), flood).await;
        let used = cpu_time() - start;
        // 10 datagrams a second leave.
        assert!((20..2000).contains(&sent), "{sent}: the buffer has to be full");
        assert!(used < Duration::from_millis(500), "{used:?} of 2 s");
    });
}

/// A NAT: passes the datagrams that arrive at 203.0.113.1 on to the server at 203.0.113.2, from a public address for
/// each private source.
fn translate(front: &std::net::UdpSocket, server: SocketAddr, stop: &AtomicBool) {
    let mut sources: Vec<(SocketAddr, std::net::UdpSocket)> = Vec::new();
    let mut buffer = [0; 65_536];
    front.set_nonblocking(true).unwrap();
    while !stop.load(Ordering::Relaxed) {
        while let Ok((len, from)) = front.recv_from(&mut buffer) {
            if !sources.iter().any(|(source, _)| *source == from) {
                let public = format!("198.51.100.{}:0", sources.len() + 1);
                let socket = std::net::UdpSocket::bind(public).unwrap();
                socket.set_nonblocking(true).unwrap();
                sources.push((from, socket));
            }
            let (_, socket) = sources.iter().find(|(source, _)| *source == from).unwrap();
            socket.send_to(&buffer[..len], server).unwrap();
        }
        for (source, socket) in &sources {
            while let Ok((len, _)) = socket.recv_from(&mut buffer) {
                front.send_to(&buffer[..len], source).unwrap();
            }
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn two_private_addresses_reach_a_server_through_nats() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    in_namespace(|| async {
        for public in ["203.0.113.1", "203.0.113.2", "198.51.100.1", "198.51.100.2"] {
            ip(&format!("addr add {public}/32 dev lo"));
        }
        for private in ["192.168.1.20", "10.155.3.7"] {
            ip(&format!("addr add {private}/32 dev lo"));
        }
        let listener = Listener::bind(StackConfig::local(["203.0.113.2:0".parse().unwrap()])).unwrap();
        let (server, port) = (listener.stack().local_addrs()[0], listener.stack().port());
        let front = std::net::UdpSocket::bind("203.0.113.1:0").unwrap();
        let peers = [front.local_addr().unwrap()];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let nat = std::thread::spawn(move || translate(&front, server, &stopped));

        let local = ["192.168.1.20:0", "10.155.3.7:0"].map(|local| local.parse().unwrap());
        let mut config = StackConfig::local(local);
        config.association.path_per_local_address = true;
        let stack = Stack::bind(config).unwrap();
        let (client, accepted) = tokio::join!(stack.connect(&peers, port), listener.accept());
        let (client, accepted) = (client.unwrap(), accepted.unwrap());
        let both = async {
            while client.paths().len() < 2 || accepted.paths().len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, both).await.expect("the second address is added");
        client.send(Message::new(0, "over a NAT")).await.unwrap();
        let message = timeout(PATIENCE, accepted.recv()).await.unwrap().unwrap().unwrap();
        assert_eq!(&message.data[..], b"over a NAT");
        let mut remotes: Vec<_> = accepted
            .paths()
            .iter()
            .map(|path| path.remote.ip().to_string())
            .collect();
        remotes.sort();
        assert_eq!(remotes, ["198.51.100.1", "198.51.100.2"]);
        stop.store(true, Ordering::Relaxed);
        nat.join().unwrap();
    });
}

async fn mtu_becomes(association: &Association, wanted: u16) {
    let mtu = || association.paths()[0].mtu;
    let wait = async {
        while mtu() != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("{} instead of {wanted}", mtu()));
}

/// The first long message starts the search (RFC 8899), which finds the MTU of the loopback interface.
async fn mtu_is_found(client: &Association, server: &Association) {
    client.send(Message::new(0, vec![0; 2000])).await.unwrap();
    timeout(PATIENCE, server.recv()).await.unwrap().unwrap().unwrap();
    mtu_becomes(client, 65535).await;
}

/// Sends messages over the loopback interface, whose MTU becomes 1400 in between.
fn send_while_the_mtu_falls(addrs: [&'static str; 2]) {
    in_namespace(|| async move {
        for addr in addrs {
            // `nodad`: without the test for duplicates, which takes a second.
            ip(&format!("addr add {addr} dev lo nodad"));
            whimbrel_testkit::await_address(|| Command::new("ip"), addr);
        }
        let [listener, stack] = addrs.map(|addr| StackConfig::local([SocketAddr::new(addr.parse().unwrap(), 0)]));
        let (listener, stack) = (Listener::bind(listener).unwrap(), Stack::bind(stack).unwrap());
        let (peers, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
        let (client, server) = tokio::join!(stack.connect(&peers, port), listener.accept());
        let (client, server) = (client.unwrap(), server.unwrap());
        mtu_is_found(&client, &server).await;
        let send = async {
            for n in 0..100 {
                if n == 50 {
                    ip("link set lo mtu 1400");
                }
                client.send(Message::new(0, vec![n; 20_000])).await.unwrap();
            }
        };
        let receive = async {
            for n in 0..100 {
                let message = server.recv().await.unwrap().unwrap();
                assert_eq!(message.data, vec![n; 20_000]);
            }
        };
        timeout(PATIENCE, async { tokio::join!(send, receive) }).await.unwrap();
        mtu_becomes(&client, 1400).await;
    });
}

#[test]
fn a_path_with_a_smaller_mtu_carries_what_was_cut_for_a_larger_one() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    send_while_the_mtu_falls(["10.9.0.1", "10.9.0.2"]);
}

#[test]
fn a_path_with_a_smaller_mtu_carries_what_was_cut_for_a_larger_one_by_ipv6() {
    whimbrel_testkit::needs!(whimbrel_testkit::namespaces());
    whimbrel_testkit::needs!(whimbrel_testkit::ipv6());
    send_while_the_mtu_falls(["fd00:9::1", "fd00:9::2"]);
}
