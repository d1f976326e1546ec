//! SCTP directly over IP, between network namespaces of the tests.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod both;
mod network;
mod sockets;
mod usrsctp;

use std::net::{SocketAddr, SocketAddrV6};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{
    Association, BindError, ConnectError, Discard, Listener, Message, PathState, RawIp, Span, Stack, StackConfig,
};
use whimbrel_testkit::{namespaces, needs, program};

use network::Host;

const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 5000;
/// Bytes of a transfer, and of each of its messages.
const BYTES: usize = 10_000_000;
const MESSAGE: usize = 50_000;

fn addr(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), 0)
}

/// A stack over raw IP at these addresses.
fn config(port: u16, ips: &[&str]) -> StackConfig {
    let mut config = StackConfig {
        port,
        transport: Some(Arc::new(RawIp)),
        ..StackConfig::local(ips.iter().map(|ip| addr(ip)))
    };
    config.association.hb_interval = Span::from_millis(200);
    config.association.rto_min = Span::from_millis(100);
    config.association.path_max_retrans = 1;
    config
}

async fn connect(stack: &Stack, ips: &[&str], port: u16) -> Result<Association, ConnectError> {
    let addrs: Vec<_> = ips.iter().map(|ip| addr(ip)).collect();
    timeout(PATIENCE, stack.connect(&addrs, port)).await.expect("no answer")
}

async fn accept(listener: &Listener) -> Association {
    timeout(PATIENCE, listener.accept())
        .await
        .expect("no association")
        .unwrap()
}

/// Checks that a stack got no packets of others: the filter keeps them away.
fn assert_own(stack: &Stack) {
    let discarded = stack.discarded();
    let is_other = |reason| matches!(reason, Discard::NotForUs | Discard::OutOfTheBlue | Discard::Malformed);
    assert!(!discarded.iter().any(|(reason, _)| is_other(*reason)), "{discarded:?}");
}

fn byte(at: usize) -> u8 {
    (at / 7 + at / 50_021) as u8
}

/// Sends and receives a transfer at the same time.
async fn exchange(association: &Association) {
    let sending = async {
        for begin in (0..BYTES).step_by(MESSAGE) {
            let data: Vec<u8> = (begin..begin + MESSAGE).map(byte).collect();
            association.send(Message::new(0, data)).await.unwrap();
        }
        association.flush().await.unwrap();
    };
    let receiving = async {
        let mut received = 0;
        while received < BYTES {
            let message = association.recv().await.unwrap().expect("the transfer is not over");
            let data = message.data;
            assert!(
                data.iter().zip(received..).all(|(got, at)| *got == byte(at)),
                "{received}"
            );
            received += data.len();
        }
        assert_eq!(received, BYTES);
    };
    timeout(PATIENCE, async { tokio::join!(sending, receiving) })
        .await
        .expect("the transfer stopped");
}

/// A listener that does one exchange with its first client, on a host.
fn serve(host: &Host, ips: &'static [&'static str]) -> std::thread::JoinHandle<()> {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let server = host.run(move || async move {
        let listener = Listener::bind(config(PORT, ips)).unwrap();
        ready.send(()).unwrap();
        let association = accept(&listener).await;
        exchange(&association).await;
        let _ = timeout(PATIENCE, association.closed()).await;
        let _ = timeout(PATIENCE, listener.stack().wait_idle()).await;
        assert_own(listener.stack());
    });
    is_ready.recv().unwrap();
    server
}

fn transfer(client_addr: &'static str, server_addr: &'static [&'static str]) {
    let (client, server) = (Host::new(), Host::new());
    let bits = if client_addr.contains(':') { 64 } else { 24 };
    let with_bits = |ip: &str| format!("{ip}/{bits}");
    client.connect(
        "eth0",
        &[&with_bits(client_addr)],
        &server,
        "eth0",
        &[&with_bits(server_addr[0])],
    );
    let serving = serve(&server, server_addr);
    let client = client.run(move || async move {
        let peer: Vec<_> = server_addr.iter().map(|ip| addr(ip)).collect();
        let stack = Stack::toward(config(0, &[]), &peer).unwrap();
        assert_eq!(stack.local_addrs(), [addr(client_addr)]);
        let association = connect(&stack, server_addr, PORT).await.unwrap();
        exchange(&association).await;
        let paths = association.paths();
        assert_eq!((paths[0].local, paths[0].remote), (addr(client_addr), peer[0]));
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
        assert_own(&stack);
    });
    client.join().unwrap();
    serving.join().unwrap();
}

#[test]
fn data_goes_both_ways_over_ipv4() {
    needs!(namespaces());
    transfer("10.9.0.1", &["10.9.0.2"]);
}

#[test]
fn data_goes_both_ways_over_ipv6() {
    needs!(namespaces().and_then(|()| whimbrel_testkit::ipv6()));
    transfer("fd09::1", &["fd09::2"]);
}

/// Two links on which both ends have the same link-local addresses, and a server at each.
fn over_links(transport: Option<Arc<dyn whimbrel::transport::Transport>>, udp_port: u16) {
    fn on(ip: &str, port: u16, interface: &str) -> SocketAddr {
        let scope = nix::net::if_::if_nametoindex(interface).unwrap();
        SocketAddrV6::new(ip.parse().unwrap(), port, 0, scope).into()
    }
    let (client, server) = (Host::new(), Host::new());
    for link in ["left", "right"] {
        client.connect(link, &["fe80::1/64"], &server, link, &["fe80::2/64"]);
    }
    for link in ["left", "right"] {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let config = StackConfig {
            transport: transport.clone(),
            ..config(PORT, &[])
        };
        let at_server = config.clone();
        let serving = server.run(move || async move {
            let local = vec![on("fe80::2", udp_port, link)];
            let listener = Listener::bind(StackConfig { local, ..at_server }).unwrap();
            ready.send(()).unwrap();
            let association = accept(&listener).await;
            exchange(&association).await;
            let _ = timeout(PATIENCE, association.closed()).await;
        });
        is_ready.recv().unwrap();
        let connecting = client.run(move || async move {
            let peer = [on("fe80::2", udp_port, link)];
            let stack = Stack::toward(StackConfig { port: 0, ..config }, &peer).unwrap();
            let association = timeout(PATIENCE, stack.connect(&peer, PORT)).await.unwrap().unwrap();
            exchange(&association).await;
            let path = &association.paths()[0];
            // The system has assigned another address to the interface itself.
            let local = on(&path.local.ip().to_string(), path.local.port(), link);
            assert_eq!((path.local, path.remote), (local, peer[0]));
            timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
        });
        connecting.join().unwrap();
        serving.join().unwrap();
    }
}

#[test]
fn link_local_addresses_are_those_of_an_interface() {
    needs!(namespaces().and_then(|()| whimbrel_testkit::ipv6()));
    over_links(None, 9899);
    over_links(Some(Arc::new(RawIp)), 0);
}

#[test]
fn a_transfer_outlives_the_interface_of_its_primary_path() {
    needs!(namespaces());
    const CLIENT: &[&str] = &["10.1.0.1", "10.2.0.1"];
    const SERVER: &[&str] = &["10.1.0.2", "10.2.0.2"];
    let (client, server) = (Arc::new(Host::new()), Host::new());
    client.connect("wifi", &["10.1.0.1/24"], &server, "wifi", &["10.1.0.2/24"]);
    client.connect("lte", &["10.2.0.1/24"], &server, "lte", &["10.2.0.2/24"]);
    let serving = serve(&server, SERVER);
    let host = client.clone();
    let done = client.run(move || async move {
        let stack = Stack::bind(config(0, CLIENT)).unwrap();
        let association = connect(&stack, SERVER, PORT).await.unwrap();
        let all_active = async {
            while association
                .paths()
                .iter()
                .filter(|path| path.state == PathState::Active)
                .count()
                < 2
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, all_active).await.expect("two paths");
        let primary = association.paths().into_iter().find(|path| path.primary).unwrap();
        assert_eq!(primary.remote, addr("10.1.0.2"));
        // Before anything is acknowledged, so that the transfer is not over.
        host.ip("link set wifi down");
        exchange(&association).await;
        let paths = association.paths();
        let alive: Vec<_> = paths
            .iter()
            .filter(|path| path.state == PathState::Active)
            .map(|path| (path.local, path.remote))
            .collect();
        assert_eq!(alive, [(addr("10.2.0.1"), addr("10.2.0.2"))], "{paths:?}");
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
    });
    done.join().unwrap();
    serving.join().unwrap();
}

/// A transfer through a router whose second link has an MTU of 1400 bytes.
fn narrow(client_ip: &'static str, server_ip: &'static [&'static str], networks: [&str; 4], forwarding: &str) {
    let (client, router, server) = (Host::new(), Host::new(), Host::new());
    client.connect("eth0", &[networks[0]], &router, "near", &[networks[1]]);
    router.connect("far", &[networks[2]], &server, "eth0", &[networks[3]]);
    router.write(forwarding, "1");
    router.ip("link set far mtu 1400");
    server.ip("link set eth0 mtu 1400");
    let gateway = |network: &str| network.split('/').next().unwrap().to_owned();
    client.ip(&format!("route add default via {}", gateway(networks[1])));
    server.ip(&format!("route add default via {}", gateway(networks[2])));
    let serving = serve(&server, server_ip);
    let path = client.run(move || async move {
        let stack = Stack::bind(config(0, &[client_ip])).unwrap();
        let association = connect(&stack, server_ip, PORT).await.unwrap();
        assert_eq!(association.paths()[0].mtu, 1280);
        exchange(&association).await;
        let path = association.paths()[0];
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
        path
    });
    let path = path.join().unwrap();
    assert_eq!(path.mtu, 1400, "{path:?}");
    serving.join().unwrap();
}

#[test]
fn icmp_limits_the_search_for_the_path_mtu() {
    needs!(namespaces());
    narrow(
        "10.1.0.1",
        &["10.2.0.1"],
        ["10.1.0.1/24", "10.1.0.9/24", "10.2.0.9/24", "10.2.0.1/24"],
        "/proc/sys/net/ipv4/ip_forward",
    );
}

#[test]
fn icmpv6_limits_the_search_for_the_path_mtu() {
    needs!(namespaces().and_then(|()| whimbrel_testkit::ipv6()));
    narrow(
        "fd01::1",
        &["fd02::1"],
        ["fd01::1/64", "fd01::9/64", "fd02::9/64", "fd02::1/64"],
        "/proc/sys/net/ipv6/conf/all/forwarding",
    );
}

/// A link behind a router becomes narrow during an association, and the router reports nothing.
fn becomes_narrow(
    transport: Option<Arc<dyn whimbrel::transport::Transport>>,
    ips: [&'static str; 4],
    forwarding: &str,
) {
    let (client, router, server) = (Host::new(), Arc::new(Host::new()), Arc::new(Host::new()));
    let is_v6 = ips[0].contains(':');
    let networks = ips.map(|ip| format!("{ip}/{}", if is_v6 { 64 } else { 24 }));
    client.connect("eth0", &[&networks[0]], &router, "near", &[&networks[1]]);
    router.connect("far", &[&networks[2]], &server, "eth0", &[&networks[3]]);
    for (host, interface) in [
        (&client, "eth0"),
        (&router, "near"),
        (&router, "far"),
        (&server, "eth0"),
    ] {
        host.ip(&format!("link set {interface} mtu 9000"));
    }
    router.write(forwarding, "1");
    client.ip(&format!("route add default via {}", ips[1]));
    server.ip(&format!("route add default via {}", ips[2]));
    // Nothing that the router itself sends leaves it.
    router.ip(if is_v6 {
        "-6 rule add iif lo blackhole"
    } else {
        "rule add iif lo blackhole"
    });
    let port = if transport.is_some() { 0 } else { 9899 };
    let at = move |ip: &str| SocketAddr::new(ip.parse().unwrap(), port);
    let config = move |sctp_port, ip| StackConfig {
        transport: transport.clone(),
        local: vec![at(ip)],
        ..config(sctp_port, &[])
    };
    let of_server = config(PORT, ips[3]);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let serving = server.run(move || async move {
        let listener = Listener::bind(of_server).unwrap();
        ready.send(()).unwrap();
        let association = accept(&listener).await;
        for _ in 0..2 {
            exchange(&association).await;
        }
        let _ = timeout(PATIENCE, association.closed()).await;
    });
    is_ready.recv().unwrap();
    let of_client = config(0, ips[0]);
    let (router, end) = (router.clone(), server.clone());
    let connecting = client.run(move || async move {
        let stack = Stack::bind(of_client).unwrap();
        let association = timeout(PATIENCE, stack.connect(&[at(ips[3])], PORT))
            .await
            .unwrap()
            .unwrap();
        let becomes = async |least: u16, most: u16| {
            let path = || association.paths()[0];
            let wait = async {
                while !(least..=most).contains(&path().mtu) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{:?}", path()));
        };
        // The first long message starts the search.
        exchange(&association).await;
        becomes(9000, 9000).await;
        router.ip("link set far mtu 1400");
        end.ip("link set eth0 mtu 1400");
        // The first packets are too long, and their chunks cannot be cut again.
        exchange(&association).await;
        becomes(1280, 1400).await;
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
    });
    connecting.join().unwrap();
    serving.join().unwrap();
}

#[test]
fn data_in_flight_over_ipv4_arrives_although_a_silent_router_drops_it() {
    needs!(namespaces());
    let ips = ["10.1.0.1", "10.1.0.9", "10.2.0.9", "10.2.0.1"];
    for transport in [None, Some(Arc::new(RawIp) as _)] {
        becomes_narrow(transport, ips, "/proc/sys/net/ipv4/ip_forward");
    }
}

#[test]
fn data_in_flight_over_ipv6_arrives_although_a_silent_router_drops_it() {
    needs!(namespaces().and_then(|()| whimbrel_testkit::ipv6()));
    let ips = ["fd01::1", "fd01::9", "fd02::9", "fd02::1"];
    for transport in [None, Some(Arc::new(RawIp) as _)] {
        becomes_narrow(transport, ips, "/proc/sys/net/ipv6/conf/all/forwarding");
    }
}

#[test]
fn stacks_with_other_ports_leave_each_other_s_packets_alone() {
    needs!(namespaces());
    let host = Host::new();
    let done = host.run(|| async {
        // All at one address: every socket gets the packets of all.
        let first = Listener::bind(config(PORT, &["127.0.0.1"])).unwrap();
        let second = Listener::bind(config(PORT + 1, &["127.0.0.1"])).unwrap();
        let clients = [
            Stack::bind(config(0, &["127.0.0.1"])).unwrap(),
            Stack::bind(config(0, &["127.0.0.1"])).unwrap(),
        ];
        let (to_first, at_first) = tokio::join!(connect(&clients[0], &["127.0.0.1"], PORT), accept(&first));
        let (to_second, at_second) = tokio::join!(connect(&clients[1], &["127.0.0.1"], PORT + 1), accept(&second));
        let (to_first, to_second) = (to_first.unwrap(), to_second.unwrap());
        tokio::join!(
            exchange(&to_first),
            exchange(&at_first),
            exchange(&to_second),
            exchange(&at_second)
        );
        for stack in [first.stack(), second.stack(), &clients[0], &clients[1]] {
            assert_own(stack);
        }
        // A port that no stack has is not answered: another program of the host may have it.
        let nowhere = [addr("127.0.0.1")];
        let attempt = timeout(Duration::from_millis(500), clients[0].connect(&nowhere, 7));
        assert!(attempt.await.is_err(), "an answer");
        // A stack that is to answer for all ports does so.
        let mut sole = config(PORT, &["127.0.0.2"]);
        sole.answer_all_ports = Some(true);
        let sole = Listener::bind(sole).unwrap();
        let refused = connect(&clients[0], &["127.0.0.2"], 7).await.unwrap_err();
        assert!(matches!(refused, ConnectError::Refused(_)), "{refused}");
        assert_eq!(sole.stack().discarded(), [(Discard::NotForUs, 1)]);
    });
    done.join().unwrap();
}

#[test]
fn an_address_and_a_port_belong_to_one_stack() {
    needs!(namespaces());
    let host = Host::new();
    let done = host.run(|| async {
        let first = Listener::bind(config(PORT, &["127.0.0.1"])).unwrap();
        let taken = Listener::bind(config(PORT, &["127.0.0.1"])).unwrap_err();
        assert_eq!(
            taken.to_string(),
            "cannot use SCTP over IP at 127.0.0.1: another stack of this host has SCTP port 5000 at this address"
        );
        let _elsewhere = Listener::bind(config(PORT, &["127.0.0.2"])).unwrap();
        let stack = Stack::bind(config(0, &["127.0.0.1"])).unwrap();
        assert!(stack.port() >= 49_152);
        assert_eq!(stack.add_local_address(addr("127.0.0.3")).unwrap(), addr("127.0.0.3"));
        // Sockets are closed by the driver, a task.
        drop(first);
        let again = async {
            while Listener::bind(config(PORT, &["127.0.0.1"])).is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, again).await.expect("the port is free again");
    });
    done.join().unwrap();
}

#[test]
fn addresses_have_no_port() {
    needs!(namespaces());
    let host = Host::new();
    let done = host.run(|| async {
        let with_port: SocketAddr = "127.0.0.1:9899".parse().unwrap();
        let mut wrong = config(PORT, &[]);
        wrong.local = vec![with_port];
        let error = Stack::bind(wrong).unwrap_err();
        assert!(error.to_string().contains("no UDP ports: use port 0"), "{error}");
        let stack = Stack::bind(config(0, &["127.0.0.1"])).unwrap();
        let error = stack.connect(&[with_port], PORT).await.unwrap_err();
        assert!(
            matches!(error, ConnectError::HasPort(addr) if addr == with_port),
            "{error}"
        );
        let foreign = Stack::bind(config(0, &["192.0.2.1"])).unwrap_err();
        assert!(
            foreign
                .to_string()
                .starts_with("cannot use SCTP over IP at 192.0.2.1: Cannot assign requested address"),
            "{foreign}"
        );
    });
    done.join().unwrap();
}

#[test]
fn a_host_without_sctp_over_ip_refuses_at_once() {
    needs!(namespaces());
    let has_ipv6 = whimbrel_testkit::ipv6().is_ok();
    let host = Host::new();
    if has_ipv6 {
        host.add_address("fd09::2/128", "lo");
    }
    let done = host.run(move || async move {
        let refused = async |own: &str, peer: &str| {
            let stack = Stack::bind(config(0, &[own])).unwrap();
            let error = connect(&stack, &[peer], PORT).await.unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("connection refused: no program uses SCTP over IP at {peer}")
            );
        };
        refused("127.0.0.1", "127.0.0.2").await;
        if has_ipv6 {
            refused("::1", "fd09::2").await;
        }
    });
    done.join().unwrap();
}

/// The test below starts its own program with this variable, without the capability.
const WITHOUT: &str = "WHIMBREL_TEST_WITHOUT_NET_RAW";

#[tokio::test]
async fn without_the_capability_the_error_names_the_remedy() {
    if std::env::var_os(WITHOUT).is_some() {
        for ip in ["127.0.0.1", "::1"] {
            let error = Stack::bind(config(0, &[ip])).unwrap_err();
            if !matches!(error, BindError::NoIpv6(_)) {
                assert_eq!(
                    error.to_string(),
                    format!(
                        "cannot use SCTP over IP at {ip}: SCTP over IP needs the capability CAP_NET_RAW: run the program as root, or once \
                         `setcap cap_net_raw+ep PROGRAM` as root, or use UDP"
                    )
                );
            }
        }
        return;
    }
    needs!(program("setpriv", "util-linux"));
    let output = Command::new("setpriv")
        .args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "without_the_capability_the_error_names_the_remedy"])
        .env(WITHOUT, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // Another user than root cannot drop it, and does not have it.
    if text.contains("setpriv:") {
        return whimbrel_testkit::not_run(module_path!(), &text);
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
