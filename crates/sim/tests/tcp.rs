//! TCP in whole runs: what it achieves on clean and lossy links, beside itself and beside SCTP.

mod common;

use common::{file, flow, pair, run};
use whimbrel_control::{Rate, Span};
use whimbrel_sim::config::{
    FlowConfig, FlowKind, LossConfig, QueueConfig, SimConfig, TcpConfig, TcpFlavour, TrafficConfig,
};
use whimbrel_sim::{EndReason, FlowOutcome};

const FLAVOURS: [TcpFlavour; 5] = [
    TcpFlavour::Tahoe,
    TcpFlavour::Reno,
    TcpFlavour::NewReno,
    TcpFlavour::Sack,
    TcpFlavour::Fack,
];

fn tcp(flavour: TcpFlavour) -> TcpConfig {
    TcpConfig {
        flavour,
        ..TcpConfig::default()
    }
}

fn tcp_flow(name: &str, traffic: TrafficConfig, config: TcpConfig) -> FlowConfig {
    FlowConfig {
        tcp: Some(config),
        ..flow(name, FlowKind::Tcp, traffic)
    }
}

/// A link that loses so many of the packets of data; acknowledgements always arrive.
fn lossy(loss: f64, rate: Rate, delay: Span, queue: u32, seconds: u64) -> SimConfig {
    let mut config = pair(rate, delay, seconds);
    config.link[0].queue = QueueConfig::DropTail {
        packets: Some(queue),
        bytes: None,
    };
    let data = LossConfig::ChunkType {
        chunks: vec![whimbrel_sim::config::ChunkKind::Data],
        model: Box::new(LossConfig::Bernoulli { rate: loss }),
    };
    config.link[0].loss = data.into();
    config
}

#[test]
fn a_file_arrives_whole_and_the_connection_ends() {
    for flavour in FLAVOURS {
        let mut config = pair(Rate::from_mbps(2), Span::from_millis(20), 1000);
        config.flow = vec![tcp_flow("file", file(1_000_003), tcp(flavour))];
        let result = run(&config, 1);
        let flow = &result.flows[0];
        assert_eq!(flow.outcome, FlowOutcome::Completed, "{flavour:?}");
        assert_eq!(result.end, EndReason::AllDone);
        assert!(flow.file.is_some_and(|file| file.intact), "{flavour:?} {:?}", flow.file);
        assert_eq!(flow.messages_delivered, flow.messages_sent);
        // 1448 bytes in packets of 1500, one round trip before the data, and a slow start that fills the link in a few more.
        let ideal = 1_000_003.0 / 1448.0 * 1500.0 * 8.0 / 2e6;
        let took = flow.completion.expect("complete").as_secs_f64();
        assert!(took > ideal + 0.06 && took < ideal + 0.5, "{flavour:?}: {took} s, ideal {ideal} s");
        assert_eq!(flow.sender.retransmissions, 0);
    }
}

#[test]
fn debug_loss() {
    for flavour in FLAVOURS {
        for loss in [0.0, 0.01, 0.03] {
            let mut config = lossy(loss, Rate::from_mbps(2), Span::from_millis(20), 50, 310);
            config.measure.from = Span::from_secs(10);
            config.flow = vec![tcp_flow("bulk", TrafficConfig::default(), tcp(flavour))];
            let result = run(&config, 1);
            let flow = &result.flows[0];
            println!(
                "{flavour:?} {loss} {:.4} rtx {} fast {} to {} rec {} dup {}",
                flow.goodput_bps / 1e6,
                flow.sender.retransmissions,
                flow.sender.fast_retransmits,
                flow.sender.timeouts,
                flow.sender.recoveries,
                flow.receiver.duplicates_received
            );
        }
    }
}

#[test]
fn debug_two() {
    for flavour in [TcpFlavour::NewReno, TcpFlavour::Sack] {
        let mut config = lossy(0.0, Rate::from_mbps(2), Span::from_millis(20), 50, 100);
        config.flow = vec![tcp_flow("bulk", TrafficConfig::default(), tcp(flavour))];
        let result = run(&config, 1);
        for e in result.ledger.entries().iter().filter(|e| e.at.as_secs_f64() > 20.0).take(8) {
            println!("{flavour:?} {} {} {:?} {:?}", e.at, e.number, e.tsn, e.cause);
        }
    }
}
