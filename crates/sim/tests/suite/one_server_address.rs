//! A phone with two links and a server with one address: a common first scenario.

use crate::common::{flow, nodes, run};
use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_sim::config::{FlowKind, LinkConfig, ScheduleStep, SimConfig, TrafficConfig};

fn phone_and_server() -> SimConfig {
    let mut config = nodes(&["phone", "internet", "server"], 30);
    let link = |name: &str, a: &str, b: &str, rate, delay| LinkConfig {
        name: Some(name.to_owned()),
        ..LinkConfig::new(a, b, Rate::from_mbps(rate), Span::from_millis(delay))
    };
    config.link = vec![
        link("wifi", "phone", "internet", 10, 10),
        link("lte", "phone", "internet", 10, 20),
        link("core", "internet", "server", 100, 10),
    ];
    let mut upload = flow("upload", FlowKind::Sctp, TrafficConfig::default());
    (upload.from, upload.to) = ("phone".into(), "server".into());
    upload.from_links = vec!["wifi".into(), "lte".into()];
    upload.sctp.get_or_insert_default().path_per_local_address = true;
    config.flow = vec![upload];
    config.measure.from = Span::from_secs(5);
    config
}

/// Packets over Wi-Fi and over LTE towards the server.
fn packets(config: &SimConfig) -> [u64; 2] {
    let result = run(config, 1);
    [result.links[0].packets, result.links[2].packets]
}

#[test]
fn both_links_carry_data_at_once_to_one_server_address() {
    let mut config = phone_and_server();
    config.flow[0].sctp.get_or_insert_default().scheme = Scheme::by_name("multipath").expect("it is registered");
    let result = run(&config, 1);
    assert!(result.flows[0].goodput_bps > 18e6, "{}", result.flows[0].goodput_bps);
}

#[test]
fn data_moves_to_the_second_link_when_the_first_fails() {
    let mut config = phone_and_server();
    config.link[0].schedule = vec![ScheduleStep::up(Span::from_secs(10), false)];
    // The default takes five consecutive timeouts, longer than the run.
    config.flow[0].sctp.get_or_insert_default().path_max_retrans = 0;
    config.measure.from = Span::from_secs(20);
    let result = run(&config, 1);
    assert!(result.flows[0].goodput_bps > 9e6, "{}", result.flows[0].goodput_bps);
}

#[test]
fn by_default_a_path_belongs_to_a_remote_address() {
    let mut config = phone_and_server();
    config.flow[0].sctp.get_or_insert_default().path_per_local_address = false;
    let [wifi, lte] = packets(&config);
    assert!(wifi > 1000 && lte < 10, "{wifi} over Wi-Fi, {lte} over LTE");
}
