//! A mobile node changes networks during a transfer (RFC 5061): the longest silence at the receiving application in milliseconds.

use crate::common::{flow, nodes, run};
use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Rate, Span};
use whimbrel_sim::config::{
    AddressStep, Carriage, FlowEnd, FlowKind, LinkConfig, ScheduleStep, SimConfig, TrafficConfig, TrafficKind,
};
use whimbrel_sim::{FlowOutcome, RunResult};

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// Wi-Fi that fails at 20 s, and a cellular link that is added later.
fn walk(steps: Vec<AddressStep>) -> SimConfig {
    let mut config = nodes(&["mobile", "internet", "server"], 30);
    let link = |name: &str, between: [&str; 2], rate, delay| LinkConfig {
        name: Some(name.to_owned()),
        ..LinkConfig::new(between[0], between[1], Rate::from_mbps(rate), ms(delay))
    };
    config.link = vec![
        link("wifi", ["mobile", "internet"], 20, 5),
        link("lte", ["mobile", "internet"], 10, 30),
        link("core", ["internet", "server"], 100, 10),
    ];
    config.link[0].schedule = vec![ScheduleStep::up(Span::from_secs(20), false)];
    let mut upload = flow("upload", FlowKind::Sctp, TrafficConfig::default());
    (upload.from, upload.to) = ("mobile".into(), "server".into());
    let sctp = upload.sctp.get_or_insert_default();
    sctp.dynamic_addresses = true;
    // Small enough to avoid a long queue on the old path, which data on the new one would overtake: missing reports by TSN would
    // count the queued data as lost.
    sctp.send_buffer = 1 << 18;
    upload.address = steps;
    config.flow = vec![upload];
    config.measure.from = Span::from_secs(5);
    config
}

fn step(at: u64, change: impl FnOnce(&mut AddressStep)) -> AddressStep {
    let mut step = AddressStep {
        at: ms(at),
        ..AddressStep::default()
    };
    change(&mut step);
    step
}

fn add(at: u64) -> AddressStep {
    step(at, |step| step.add = Some("lte".into()))
}

fn primary(at: u64) -> AddressStep {
    step(at, |step| step.primary = Some("lte".into()))
}

fn remove(at: u64) -> AddressStep {
    step(at, |step| step.remove = Some("wifi".into()))
}

/// Returns the longest silence at the receiving application in milliseconds.
fn silence(result: &RunResult) -> u64 {
    result.flows[0].longest_silence.expect("data arrived").as_millis()
}

#[test]
fn make_before_break_causes_little_silence() {
    let config = walk(vec![add(18_000), primary(18_500), remove(19_000)]);
    let result = run(&config, 1);
    // The window of the new path starts small: one round trip, 80 ms, passes between its first packets and the next ones.
    assert!(silence(&result) <= 100, "{} ms", silence(&result));
    assert_eq!(result.flows[0].sender.timeouts, 0);
    let mut after = config.clone();
    after.measure.from = Span::from_secs(22);
    let goodput = run(&after, 1).flows[0].goodput_bps;
    assert!(goodput > 8.5e6, "{goodput}");
    // AUTH chunks work in structures, too.
    let mut bytes = config;
    bytes.carriage = Carriage::Bytes;
    assert_eq!(run(&bytes, 1).fingerprint, result.fingerprint);
}

/// Data on the new path overtakes the queue of the old one. Counted by TSNs, the missing reports of RFC 9260 §7.2.4 declare the
/// queued data lost, because they do not distinguish paths; with path sequence numbers, or with CMT's split fast retransmit,
/// nothing is retransmitted.
#[test]
fn a_long_queue_on_the_old_path_is_no_loss_with_per_path_accounting() {
    for (accounting, is_misled) in [
        (Accounting::Association, true),
        (Accounting::Path, false),
        (Accounting::Cmt, false),
    ] {
        let mut config = walk(vec![add(18_000), primary(18_500), remove(19_000)]);
        // The queue of the Wi-Fi is full at that time.
        config.link[0].rate = Some(Rate::from_mbps(8));
        let sctp = config.flow[0].sctp.get_or_insert_default();
        sctp.send_buffer = 1 << 20;
        sctp.accounting = Some(accounting);
        config.measure.from = Span::from_secs(18);
        config.measure.to = Some(ms(19_300));
        let result = run(&config, 1);
        let twice = result.flows[0].spurious_retransmissions();
        println!("{accounting:?}: {twice} sent twice, {} ms", silence(&result));
        assert_eq!(twice > 20, is_misled, "{accounting:?}: {twice}");
        assert!(is_misled || twice == 0, "{accounting:?}: {twice}");
    }
}

#[test]
fn a_voice_call_sees_only_the_longer_delay() {
    let mut config = walk(vec![add(18_000), primary(18_500), remove(19_000)]);
    config.flow[0].traffic = crate::common::paced(TrafficKind::Cbr, Rate::from_bps(64_000), 160);
    let result = run(&config, 1);
    // A message every 20 ms; the new path takes 25 ms more.
    assert!((40..=50).contains(&silence(&result)), "{} ms", silence(&result));
    assert_eq!(
        result.flows[0].sender.timeouts + result.flows[0].sender.retransmissions,
        0
    );
}

#[test]
fn one_step_may_add_and_remove() {
    let all = step(19_000, |step| {
        step.add = Some("lte".into());
        step.primary = Some("lte".into());
        step.remove = Some("wifi".into());
    });
    let result = run(&walk(vec![all]), 1);
    // The data waits until the server knows the new address: a round trip of 80 ms, and the one-way delay.
    assert!((80..=250).contains(&silence(&result)), "{} ms", silence(&result));
    assert_eq!(result.flows[0].outcome, FlowOutcome::Running);
}

#[test]
fn break_before_make_waits_little_longer_than_for_the_new_link() {
    // The link fails at 20 s; the other one is available half a second later.
    let result = run(&walk(vec![add(20_500), remove(20_500)]), 1);
    assert!((500..=900).contains(&silence(&result)), "{} ms", silence(&result));
    assert_eq!(result.flows[0].outcome, FlowOutcome::Running);
}

#[test]
fn the_receiver_may_move_too() {
    let mut config = walk(vec![add(18_000), primary(18_500), remove(19_000)]);
    for step in &mut config.flow[0].address {
        step.end = FlowEnd::Receiver;
    }
    let flow = &mut config.flow[0];
    core::mem::swap(&mut flow.from, &mut flow.to);
    let result = run(&config, 1);
    assert!(silence(&result) <= 100, "{} ms", silence(&result));
    assert_eq!(result.flows[0].sender.timeouts, 0);
}

#[test]
fn a_file_survives_many_handovers_unchanged() {
    let steps = (1..9_u64).flat_map(|round| {
        let (comes, goes) = if round % 2 == 1 {
            ("lte", "wifi")
        } else {
            ("wifi", "lte")
        };
        [
            step(round * 1000, |step| step.add = Some(comes.into())),
            step(round * 1000 + 300, |step| step.primary = Some(comes.into())),
            step(round * 1000 + 600, |step| step.remove = Some(goes.into())),
        ]
    });
    let mut config = walk(steps.collect());
    config.link[0].schedule.clear();
    config.flow[0].traffic = TrafficConfig {
        file_bytes: Some(9_000_000),
        ..TrafficConfig::of(TrafficKind::File)
    };
    let result = run(&config, 1);
    assert_eq!(result.flows[0].outcome, FlowOutcome::Completed);
    assert!(
        result.flows[0].file.as_ref().is_some_and(|file| file.intact),
        "{:?}",
        result.flows[0].file
    );
    assert!(result.ended_at.as_secs_f64() > 5.0, "some handovers happened");
}

#[test]
fn a_peer_without_dynamic_addresses_keeps_its_address() {
    let mut config = walk(vec![add(10_000), primary(10_000)]);
    let off = serde_json::json!({ "dynamic_addresses": false });
    config.flow[0].receiver = off.as_object().cloned();
    config.link[0].schedule.clear();
    let result = run(&config, 1);
    assert!(result.flows[0].goodput_bps > 18e6, "{}", result.flows[0].goodput_bps);
}

#[test]
fn rejects_mistakes_with_their_place() {
    let path = |change: fn(&mut SimConfig)| {
        let mut config = walk(vec![add(1000), remove(2000)]);
        change(&mut config);
        config.validate().expect_err("cannot be").path
    };
    assert_eq!(
        path(|c| c.flow[0].address[0].add = Some("lt".into())),
        "flow[0].address[0].add"
    );
    assert_eq!(
        path(|c| c.flow[0].address[1].remove = Some("core".into())),
        "flow[0].address[1].remove"
    );
    assert_eq!(path(|c| c.flow[0].address[1].at = ms(1)), "flow[0].address[1].at");
    assert_eq!(path(|c| c.flow[0].address[1].remove = None), "flow[0].address[1]");
    assert_eq!(path(|c| c.flow[0].sctp = None), "flow[0].sctp.dynamic_addresses");
    assert_eq!(
        path(|c| c.flow[0].address[1] = step(2000, |s| s.add = Some("wifi".into()))),
        "flow[0].address"
    );
}
