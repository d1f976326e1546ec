//! Addresses of the host that come and go, and reports of its network, in a network namespace of the test.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{
    AddressChange, AddressWatch, Association, Listener, Message, PathChange, PathEvents, Span, Stack, StackConfig,
    Trouble,
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
