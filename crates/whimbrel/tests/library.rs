//! What the library offers besides messages: its types, path events, the choice of the primary path, its ports.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use whimbrel::{Association, Listener, Message, PathChange, PathState, Stack, StackConfig};

const PATIENCE: Duration = Duration::from_secs(20);

fn on(addrs: &[&str]) -> StackConfig {
    let mut config = StackConfig::local(addrs.iter().map(|addr| addr.parse().unwrap()));
    config.association.dynamic_addresses = true;
    config
}

async fn pair(server: StackConfig, client: StackConfig) -> (Association, Association, Stack, Listener) {
    let listener = Listener::bind(server).unwrap();
    let stack = Stack::bind(client).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let (a, b) = tokio::join!(stack.connect(&addrs, port), listener.accept());
    (a.unwrap(), b.unwrap(), stack, listener)
}

/// Every type of a field, by its path in this crate: none has to be taken from another one.
#[test]
fn every_field_of_the_configuration_can_be_set_with_exported_types() {
    let association = whimbrel::AssociationConfig {
        preset: whimbrel::Preset::Rfc4960,
        outbound_streams: 3,
        max_inbound_streams: 3,
        rto_initial: Some(whimbrel::Span::from_millis(500)),
        rto_min: whimbrel::Span::from_millis(200),
        rto_max: whimbrel::Span::from_secs(10),
        max_message: Some(1000),
        hb_interval: whimbrel::Span::from_secs(5),
        scheme: whimbrel::Scheme::by_name("cubic").unwrap(),
        discriminator: Some(whimbrel::DiscriminatorSpec::Veno(
            whimbrel::discriminator::VenoParameters { ..Default::default() },
        )),
        window: Some(whimbrel::WindowSpec::Cubic(whimbrel::window::CubicParameters::default())),
        recovery: whimbrel::RecoveryChanges {
            back_off: Some(whimbrel::recovery::BackOff::default()),
            ..whimbrel::RecoveryChanges::default()
        },
        accounting: Some(whimbrel::Accounting::Path),
        distribution: Some(whimbrel::DistributionSpec::LowestRtt(
            whimbrel::multipath::distribution::LowestRttParameters::default(),
        )),
        retransmit_path: Some(whimbrel::RetransmitPath::default()),
        coupling: Some(whimbrel::CouplingSpec::Lia(
            whimbrel::multipath::coupling::LiaParameters::default(),
        )),
        buffer_split: Some(whimbrel::BufferSplit::default()),
        path_policy: Some(whimbrel::PathPolicySpec::PotentiallyFailed(
            whimbrel::multipath::policy::PotentiallyFailedParameters::default(),
        )),
        reporting: whimbrel::ReportingChanges::default(),
        auth: whimbrel::AuthConfig::default(),
        protection: whimbrel::ProtectionConfig::default(),
        scheduler: whimbrel::Scheduler::RoundRobin,
        zero_checksum: Some(whimbrel::ErrorDetection::Dtls),
        rules: whimbrel::RuleChanges {
            heartbeat_timer: Some(whimbrel::HeartbeatTimer::Path),
            ..whimbrel::RuleChanges::default()
        },
        ..whimbrel::AssociationConfig::default()
    };
    let config = whimbrel::StackConfig {
        association,
        first_message_timeout: Some(whimbrel::Span::from_secs(1)),
        ..whimbrel::StackConfig::default()
    };
    let checked: Result<(), whimbrel::ConfigError> = config.association.validate();
    checked.unwrap();
}

/// The test above names every type that a field has.
#[test]
fn no_field_of_the_configuration_has_a_type_that_is_not_exported() {
    let primitive = ["u8", "u16", "u32", "u64", "usize", "f64", "bool", "Vec<SocketAddr>"];
    let exported = [
        "Preset",
        "Span",
        "Scheme",
        "DiscriminatorSpec",
        "WindowSpec",
        "RecoveryChanges",
        "Accounting",
        "DistributionSpec",
        "RetransmitPath",
        "CouplingSpec",
        "BufferSplit",
        "PathPolicySpec",
        "ReportingChanges",
        "AuthConfig",
        "RuleChanges",
        "AssociationConfig",
        "Scheduler",
        "ErrorDetection",
        "ProtectionConfig",
    ];
    let mut fields = 0;
    for (source, name) in [
        (include_str!("../../proto/src/config/mod.rs"), "AssociationConfig"),
        (include_str!("../src/config.rs"), "StackConfig"),
    ] {
        let (_, after) = source.split_once(&format!("pub struct {name} {{\n")).unwrap();
        let (body, _) = after.split_once("\n}\n").unwrap();
        for line in body.lines() {
            let Some((field, of)) = line
                .trim()
                .strip_prefix("pub ")
                .and_then(|field| field.split_once(": "))
            else {
                continue;
            };
            let of = of.trim_end_matches(',');
            if field == "transport" {
                // A trait object: `transport::Transport`.
                continue;
            }
            let of = of
                .strip_prefix("Option<")
                .and_then(|of| of.strip_suffix('>'))
                .unwrap_or(of);
            assert!(
                primitive.contains(&of) || exported.contains(&of),
                "{name}.{field}: {of} is not exported"
            );
            fields += 1;
        }
    }
    assert!(fields > 50, "{fields} fields found");
}

#[tokio::test]
async fn listener_uses_the_given_sctp_port() {
    let listener = Listener::bind(StackConfig {
        port: 4711,
        ..on(&["127.0.0.1:0"])
    })
    .unwrap();
    assert_eq!(listener.stack().port(), 4711);
    let stack = Stack::bind(on(&["127.0.0.1:0"])).unwrap();
    let addrs = listener.stack().local_addrs().to_vec();
    timeout(PATIENCE, stack.connect(&addrs, 4711)).await.unwrap().unwrap();
    assert!(timeout(PATIENCE, stack.connect(&addrs, 4712)).await.unwrap().is_err());
}

#[tokio::test]
async fn path_events_report_addresses_that_come_and_go_until_the_end() {
    let (a, b, stack, _listener) = pair(on(&["127.0.0.9:0"]), on(&["127.0.0.1:0"])).await;
    let (mut ours, mut theirs) = (a.path_events(), b.path_events());
    let start = Instant::now();
    let added = stack.add_local_address("127.0.0.2:0".parse().unwrap()).unwrap();
    for events in [&mut ours, &mut theirs] {
        let mut seen = Vec::new();
        while seen.last() != Some(&PathChange::Confirmed) {
            let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
            assert!(event.local == added || event.remote == added, "{event:?}");
            assert!(event.time >= start && event.time <= Instant::now());
            seen.push(event.change);
        }
        assert_eq!(seen[0], PathChange::Added, "{seen:?}");
    }
    stack.remove_local_address(added).unwrap();
    for events in [&mut ours, &mut theirs] {
        let mut seen = Vec::new();
        while seen.last() != Some(&PathChange::Removed) {
            let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
            assert!(event.local == added || event.remote == added, "{event:?}");
            seen.push(event.change);
        }
        assert!(seen.len() <= 2, "{seen:?}");
    }
    a.shutdown().await.unwrap();
    assert_eq!(timeout(PATIENCE, ours.next()).await.unwrap(), None);
    // One who begins to read when all is over learns that, too.
    assert_eq!(timeout(PATIENCE, a.path_events().next()).await.unwrap(), None);
}

#[tokio::test]
async fn data_goes_over_the_path_that_was_made_primary() {
    let (a, b, _stack, _listener) =
        pair(on(&["127.0.0.9:0", "127.0.0.8:0"]), on(&["127.0.0.1:0", "127.0.0.2:0"])).await;
    let confirmed = async {
        while a.paths().iter().any(|path| path.state != PathState::Active) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, confirmed).await.unwrap();
    let mut events = a.path_events();
    let other = a.paths().into_iter().find(|path| !path.primary).unwrap();
    assert!(a.set_primary(other.id));
    assert!(!a.set_primary(whimbrel::PathId(99)));
    let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
    assert_eq!(
        (event.change, event.path, event.remote),
        (PathChange::PrimaryChanged, other.id, other.remote)
    );
    a.send(Message::new(0, vec![1; 100_000])).await.unwrap();
    timeout(PATIENCE, b.recv()).await.unwrap().unwrap();
    a.flush().await.unwrap();
    let addr = |path: whimbrel::PathInfo| -> SocketAddr { path.remote };
    let primary: Vec<_> = a.paths().into_iter().filter(|path| path.primary).map(addr).collect();
    assert_eq!(primary, [other.remote]);
    let grown = a.paths().into_iter().find(|path| path.id == other.id).unwrap();
    assert!(grown.cwnd > other.cwnd, "the data went elsewhere");
}
