//! An association whose losses are judged by a script, and its reactions.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Fate, Host, Net};
use whimbrel_control::discriminator::{Discriminate, Discriminator};
use whimbrel_control::recovery::{BackOff, RecoveryChanges, TransmissionRetransmit};
use whimbrel_control::window::WindowView;
use whimbrel_control::{LossEvent, Span, Time, Verdict};
use whimbrel_proto::{
    AssocId, AssociationConfig, AssociationStats, Message, PathId, PathInfo, RecoveryMode, TraceEvent, TraceKinds,
};
use whimbrel_wire::ChunkType;

pub(crate) const UNIT: u64 = 1468;
pub(crate) const CWND: u64 = 32 * UNIT;

/// Returns the scripted verdicts in order, then the last one for all further losses.
#[derive(Debug)]
struct Script(Vec<Verdict>);

impl Discriminate for Script {
    fn judge(&mut self, _window: WindowView, _loss: &LossEvent) -> Verdict {
        if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] }
    }
}

pub(crate) fn config(recovery: RecoveryChanges) -> AssociationConfig {
    AssociationConfig {
        recovery,
        initial_cwnd: Some(CWND as u32),
        max_burst: 0,
        hb_interval: Span::ZERO,
        sack_frequency: 1,
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..AssociationConfig::default()
    }
}

/// The recovery that Ye 2004 recommends.
pub(crate) fn wireless_aware() -> RecoveryChanges {
    RecoveryChanges {
        transmission_retransmit: Some(TransmissionRetransmit::OnePerRtt),
        probe_after_timeout: Some(true),
        back_off: Some(BackOff::Limited),
        cancel_spurious: Some(true),
        ..RecoveryChanges::default()
    }
}

/// An association whose losses are judged by a script, and its network.
pub(crate) struct Scripted {
    pub(crate) net: Net,
    pub(crate) a: AssocId,
    pub(crate) begin: Time,
    pub(crate) events: Rc<RefCell<Vec<(Time, TraceEvent)>>>,
}

impl Scripted {
    /// Creates an association with a measured round-trip time of 20 ms and these verdicts for its losses.
    pub(crate) fn new(recovery: RecoveryChanges, verdicts: &[Verdict]) -> Scripted {
        Scripted::with(&config(recovery), verdicts)
    }

    pub(crate) fn with(config: &AssociationConfig, verdicts: &[Verdict]) -> Scripted {
        let (mut net, a, _) = Net::established(1, config);
        let script = Discriminator::Other(Box::new(Script(verdicts.to_vec())));
        net.a
            .with_control(a, PathId(0), |control| control.set_discriminator(script))
            .expect("established");
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_millis(500));
        net.a.set_trace(TraceKinds::ALL);
        let begin = net.now;
        Scripted {
            net,
            a,
            begin,
            events: Rc::default(),
        }
    }

    /// Loses the n-th packets of data from now on, counted from 1.
    pub(crate) fn lose(&mut self, which: &'static [usize]) {
        let mut count = 0;
        self.net.filter = Box::new(move |packet| {
            let is_data = packet.from == Host::A && packet.has(ChunkType::DATA);
            count += usize::from(is_data);
            if is_data && which.contains(&count) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
    }

    pub(crate) fn send(&mut self, packets: usize) {
        for _ in 0..packets {
            self.net.send(Host::A, self.a, Message::zeros(0, 1452));
        }
    }

    pub(crate) fn run(&mut self, millis: u64) {
        self.net.run_for(Span::from_millis(millis));
        let events = self.events.clone();
        self.net
            .a
            .drain_trace(&mut |record| events.borrow_mut().push((record.at, record.event)));
    }

    pub(crate) fn stats(&self) -> AssociationStats {
        self.net.a.association(self.a).expect("established").stats()
    }

    pub(crate) fn path(&self) -> PathInfo {
        self.net
            .a
            .association(self.a)
            .expect("established")
            .paths()
            .next()
            .expect("a path")
    }

    pub(crate) fn millis(&self, at: Time) -> u64 {
        at.since(self.begin).as_millis()
    }

    /// Returns when A sent packets with this chunk, in milliseconds.
    pub(crate) fn sent(&self, chunk_type: ChunkType) -> Vec<u64> {
        let all = self
            .net
            .wire
            .iter()
            .filter(|sent| sent.from == Host::A && sent.at >= self.begin);
        all.filter(|sent| sent.has(chunk_type))
            .map(|sent| self.millis(sent.at))
            .collect()
    }

    /// Returns when chunks were retransmitted, in milliseconds.
    pub(crate) fn resent(&self) -> Vec<u64> {
        self.collect(|event| {
            matches!(
                event,
                TraceEvent::TsnSent {
                    retransmission: true,
                    ..
                }
            )
            .then_some(())
        })
        .into_iter()
        .map(|(at, ())| at)
        .collect()
    }

    pub(crate) fn modes(&self) -> Vec<RecoveryMode> {
        let mode = |event: &TraceEvent| match event {
            TraceEvent::RecoveryMode { mode, .. } => Some(*mode),
            _ => None,
        };
        self.collect(mode).into_iter().map(|(_, mode)| mode).collect()
    }

    pub(crate) fn collect<T>(&self, pick: impl Fn(&TraceEvent) -> Option<T>) -> Vec<(u64, T)> {
        let events = self.events.borrow();
        let found = events
            .iter()
            .filter_map(|(at, event)| Some((self.millis(*at), pick(event)?)));
        found.collect()
    }
}
