//! IPv6, alone and together with IPv4.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{Association, BindError, Listener, Message, PathState, Stack, StackConfig};

const PATIENCE: Duration = Duration::from_secs(20);

fn on(addrs: &[&str]) -> StackConfig {
    StackConfig::local(addrs.iter().map(|addr| addr.parse().unwrap()))
}

async fn pair(listener: &Listener, client: StackConfig, to: &[SocketAddr]) -> (Association, Association) {
    let stack = Stack::bind(client).unwrap();
    let connecting = stack.connect(to, listener.stack().port());
    let (a, b) = tokio::join!(timeout(PATIENCE, connecting), timeout(PATIENCE, listener.accept()));
    (a.unwrap().unwrap(), b.unwrap().unwrap())
}

/// Waits until every path is confirmed; returns the addresses of each, without ports.
async fn paths(association: &Association) -> BTreeSet<(String, String)> {
    let confirmed = async {
        while association.paths().iter().any(|path| path.state != PathState::Active) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, confirmed).await.unwrap();
    let ips = |path: whimbrel::PathInfo| (path.local.ip().to_string(), path.remote.ip().to_string());
    association.paths().into_iter().map(ips).collect()
}

fn expected(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test]
async fn unspecified_ipv6_address_listens_on_both_versions() {
    whimbrel_testkit::needs!(whimbrel_testkit::ipv6());
    let listener = Listener::bind(on(&["[::]:0"])).unwrap();
    let port = listener.stack().local_addrs()[0].port();
    for (local, remote) in [("[::1]:0", "::1"), ("127.0.0.1:0", "127.0.0.1")] {
        let to = SocketAddr::new(remote.parse().unwrap(), port);
        let (a, b) = pair(&listener, on(&[local]), &[to]).await;
        a.send(Message::new(0, "hello")).await.unwrap();
        assert_eq!(
            timeout(PATIENCE, b.recv()).await.unwrap().unwrap().unwrap().data,
            b"hello"
        );
        assert!(
            b.peer_addrs().iter().all(|addr| addr.ip() == to.ip()),
            "{:?}",
            b.peer_addrs()
        );
    }
}

#[tokio::test]
async fn addresses_of_both_versions_make_two_paths() {
    whimbrel_testkit::needs!(whimbrel_testkit::ipv6());
    for listen in [&["[::1]:0", "127.0.0.1:0"][..], &["[::]:0"]] {
        let listener = Listener::bind(on(listen)).unwrap();
        let port = listener.stack().local_addrs()[0].port();
        let to = ["::1", "127.0.0.1"].map(|ip| SocketAddr::new(ip.parse().unwrap(), port));
        let client = Stack::toward(StackConfig::default(), &to).unwrap();
        let connecting = client.connect(&to, listener.stack().port());
        let (a, b) = tokio::join!(timeout(PATIENCE, connecting), timeout(PATIENCE, listener.accept()));
        let (a, b) = (a.unwrap().unwrap(), b.unwrap().unwrap());
        let both = expected(&[("127.0.0.1", "127.0.0.1"), ("::1", "::1")]);
        assert!(paths(&a).await.is_superset(&both), "{listen:?}: {:?}", a.paths());
        assert!(paths(&b).await.is_superset(&both), "{listen:?}: {:?}", b.paths());
        // In the order in which the user named them.
        let primary = a.paths().into_iter().find(|path| path.primary).unwrap();
        assert_eq!(primary.remote, to[0]);
    }
}

#[tokio::test]
async fn mapped_addresses_are_ipv4_addresses() {
    let listener = Listener::bind(on(&["[::ffff:127.0.0.1]:0"])).unwrap();
    let addr = listener.stack().local_addrs()[0];
    assert!(addr.is_ipv4(), "{addr}");
    let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), addr.port());
    let (a, b) = pair(&listener, on(&["[::ffff:127.0.0.2]:0"]), &[mapped, addr]).await;
    assert_eq!(paths(&a).await, expected(&[("127.0.0.2", "127.0.0.1")]));
    assert_eq!(paths(&b).await, expected(&[("127.0.0.1", "127.0.0.2")]));
    let toward = Stack::toward(StackConfig::default(), &[mapped]).unwrap();
    assert!(toward.local_addrs()[0].is_ipv4());
}

#[tokio::test]
async fn host_without_ipv6_is_named_as_the_reason() {
    if whimbrel_testkit::ipv6().is_ok() {
        return whimbrel_testkit::not_run(module_path!(), "this machine has IPv6");
    }
    let refused = Stack::bind(on(&["[::1]:0"])).unwrap_err();
    assert!(matches!(refused, BindError::NoIpv6(_)), "{refused}");
    assert!(refused.to_string().contains("this host has no IPv6"));
}
