//! SCTP over IP and inside UDP at the same stack (RFC 6951).

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::time::timeout;
use whimbrel::transport::Transport;
use whimbrel::{Listener, PathState, RawIpAndUdp, Span, Stack, StackConfig, Udp};
use whimbrel_testkit::{namespaces, needs};

use super::network::Host;
use super::{PATIENCE, PORT, accept, config, exchange};

fn parse(addr: &str) -> SocketAddr {
    addr.parse().unwrap()
}

/// A stack with addresses of both kinds.
fn both(port: u16, local: &[&str]) -> StackConfig {
    StackConfig {
        transport: Some(Arc::new(RawIpAndUdp)),
        local: local.iter().copied().map(parse).collect(),
        ..config(port, &[])
    }
}

/// Peers of both kinds have one server at one address and SCTP port.
fn serves_both(ips: [&'static str; 3], bits: u8) {
    let (clients, server) = (Host::new(), Host::new());
    let [first, second, far] = ips.map(|ip| format!("{ip}/{bits}"));
    clients.connect("eth0", &[&first, &second], &server, "eth0", &[&far]);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let at = |ip: &str, port: u16| SocketAddr::new(ip.parse().unwrap(), port);
    let (plain, inside) = (at(ips[2], 0), at(ips[2], 9899));
    let serving = server.run(move || async move {
        let listener = Listener::bind(both(PORT, &[&plain.to_string(), &inside.to_string()])).unwrap();
        ready.send(()).unwrap();
        for _ in 0..2 {
            let association = accept(&listener).await;
            exchange(&association).await;
            let [path] = &association.paths()[..] else {
                panic!("{:?}", association.paths());
            };
            let is_plain = path.remote.port() == 0;
            assert_eq!(path.local, if is_plain { plain } else { inside });
            let _ = timeout(PATIENCE, association.closed()).await;
        }
    });
    is_ready.recv().unwrap();
    let calling = clients.run(move || async move {
        let raw: Arc<dyn Transport> = Arc::new(whimbrel::RawIp);
        let udp: Arc<dyn Transport> = Arc::new(Udp);
        for (transport, local, remote) in [(raw, at(ips[0], 0), plain), (udp, at(ips[1], 0), inside)] {
            let stack = Stack::bind(StackConfig {
                transport: Some(transport),
                local: vec![local],
                ..config(0, &[])
            })
            .unwrap();
            let association = timeout(PATIENCE, stack.connect(&[remote], PORT)).await;
            let association = association.expect("no answer").unwrap();
            exchange(&association).await;
            timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
        }
    });
    calling.join().unwrap();
    serving.join().unwrap();
}

#[test]
fn a_server_has_peers_of_both_kinds() {
    needs!(namespaces());
    serves_both(["10.9.0.1", "10.9.0.3", "10.9.0.2"], 24);
}

#[test]
fn a_server_has_peers_of_both_kinds_over_ipv6() {
    needs!(namespaces().and_then(|()| whimbrel_testkit::ipv6()));
    serves_both(["fd09::1", "fd09::3", "fd09::2"], 64);
}

/// One path is plain, the other inside UDP. The plain one is cut.
#[test]
fn paths_of_an_association_are_of_both_kinds() {
    needs!(namespaces());
    let (client, server) = (Host::new(), Host::new());
    client.connect("left", &["10.8.0.1/24"], &server, "left", &["10.8.0.2/24"]);
    client.connect("right", &["10.9.0.1/24"], &server, "right", &["10.9.0.2/24"]);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let serving = server.run(move || async move {
        let local = ["10.8.0.2:0", "10.8.0.2:9899", "10.9.0.2:0", "10.9.0.2:9899"];
        let listener = Listener::bind(both(PORT, &local)).unwrap();
        ready.send(()).unwrap();
        let association = accept(&listener).await;
        exchange(&association).await;
        exchange(&association).await;
        let _ = timeout(PATIENCE, association.closed()).await;
    });
    is_ready.recv().unwrap();
    let cut = Arc::new(server);
    let router = cut.clone();
    let calling = client.run(move || async move {
        let mut own = both(0, &["10.8.0.1:0", "10.8.0.1:9899", "10.9.0.1:0", "10.9.0.1:9899"]);
        own.association.hb_interval = Span::from_millis(100);
        let stack = Stack::bind(own).unwrap();
        let peer = ["10.8.0.2:0", "10.9.0.2:9899"].map(parse);
        let association = timeout(PATIENCE, stack.connect(&peer, PORT)).await;
        let association = association.expect("no answer").unwrap();
        let are = async |states: [PathState; 2]| {
            let wait = async {
                while association.paths().iter().map(|path| path.state).ne(states) {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            };
            timeout(PATIENCE, wait)
                .await
                .unwrap_or_else(|_| panic!("{:?}", association.paths()));
        };
        are([PathState::Active; 2]).await;
        exchange(&association).await;
        let ports: Vec<_> = association
            .paths()
            .iter()
            .map(|path| (path.local.port(), path.remote.port()))
            .collect();
        assert_eq!(ports, [(0, 0), (9899, 9899)]);
        router.ip("link set left down");
        are([PathState::Inactive, PathState::Active]).await;
        exchange(&association).await;
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
    });
    calling.join().unwrap();
    serving.join().unwrap();
    drop(cut);
}
