//! One end of a connection alone: tests play the other end and inspect what is sent.

use whimbrel_control::{Rate, Rng, Span, Time};
use whimbrel_proto::Ecn;

use super::*;
use crate::config::{FlowConfig, FlowKind, LinkConfig, NodeConfig, SimConfig, TcpConfig, TrafficConfig, TrafficKind};
use crate::host::{FlowState, Source};
use crate::network::Network;
use crate::observer::{Interest, Observer, PacketEvent, PacketFate, Wanted};
use crate::packet::{Congestion, PacketId};
use crate::{Resources, RunOptions, World};

/// Bytes of every full segment in these tests: the maximum segment without timestamps.
pub(super) const MSS: u64 = 1000;

/// Packets that an end has sent.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) sent: Vec<(TcpSegment, Ecn)>,
}

impl Observer for Log {
    fn wants(&self, interest: Interest) -> bool {
        interest == Interest::HostPackets
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        if let (PacketFate::Sent, Some((segment, _))) = (event.fate, event.tcp) {
            self.sent.push((*segment, event.ecn));
        }
    }
}

/// A network with a flow whose ends are not in the network.
pub(super) struct Testbed {
    network: Network,
    flow: FlowState,
    pub(super) log: Log,
    pub(super) now: Time,
}

impl Testbed {
    pub(super) fn new() -> Self {
        let mut config = SimConfig::empty(Span::from_secs(3600));
        config.node = ["a", "b"].map(NodeConfig::new).into();
        config.link = vec![LinkConfig::new("a", "b", Rate::from_mbps(1000), Span::from_millis(1))];
        config.flow = vec![FlowConfig::new("flow", FlowKind::Tcp, "a", "b")];
        let world = World::new(&config, 1, &Resources::default(), RunOptions::default()).expect("a world");
        let (mut network, mut flows) = world.into_parts();
        let log = Log::default();
        network.wanted = Wanted::by(&log);
        Testbed {
            network,
            flow: flows.remove(0),
            log,
            now: Time::ZERO + Span::from_millis(1),
        }
    }

    pub(super) fn with<T>(&mut self, f: impl FnOnce(&mut Context<'_>) -> T) -> T {
        f(&mut Context {
            now: self.now,
            network: &mut self.network,
            flow: &mut self.flow,
            observer: &mut self.log,
        })
    }

    /// Returns a segment that has just arrived.
    pub(super) fn arrive(&mut self, segment: TcpSegment, ecn: Ecn, congestion: Congestion) -> PacketId {
        let id = self.network.slab.reserve();
        let body = self.network.slab.body_mut(id);
        body.form = Form::Tcp;
        body.tcp = segment;
        body.bytes.clear();
        let packet = self.network.slab.get_mut(id);
        packet.ecn = ecn;
        packet.congestion = congestion;
        id
    }

    /// Returns the packets sent since the last call.
    pub(super) fn take(&mut self) -> Vec<(TcpSegment, Ecn)> {
        core::mem::take(&mut self.log.sent)
    }

    pub(super) fn bytes_delivered(&self) -> u64 {
        self.flow.sink.bytes
    }

    pub(super) fn message_sent(&mut self) {
        self.flow.sink.sent(self.now, self.network.window);
    }
}

/// Returns parameters with segments of [`MSS`] and without features that would hide the tested behaviour.
pub(super) fn plain() -> TcpConfig {
    TcpConfig {
        mss: MSS as u16,
        timestamps: false,
        recv_buffer: 1_000_000,
        send_buffer: 1_000_000,
        ack_frequency: 1,
        ..TcpConfig::default()
    }
}

pub(super) fn source(kind: TrafficKind, count: Option<u64>, bytes: u32) -> Source {
    let traffic = TrafficConfig {
        message_bytes: bytes,
        count,
        ..TrafficConfig::of(kind)
    };
    Source::new(
        &traffic,
        crate::config::FlowKind::Tcp,
        Time::ZERO,
        None,
        None,
        Rng::stream(1, "source"),
    )
}
