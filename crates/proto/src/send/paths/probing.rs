//! Path probes: numbered heartbeats as large as data packets, which a path policy orders (Pan et al. 2010, 4.1.2).
//!
//! A peer returns HEARTBEAT chunks with a long Heartbeat Info unchanged (RFC 9260 §3.3.5, §8.3), so probing works with
//! any peer. The HEARTBEAT ACKs are as large as the probes. Each probe has a random nonce that must be returned, so
//! that no peer can acknowledge a probe that it did not receive. Probes that *follow* the data are sent one per data
//! packet, as far as their own congestion window allows. A *train* is sent back to back.
//!
//! A probe whose HEARTBEAT ACK is lost counts as lost, and its window reacts, whereas lost SACKs hardly affect data:
//! heartbeats do not distinguish the two directions. Where HEARTBEAT ACKs are lost, a path appears worse than it is.

use whimbrel_control::multipath::policy::PolicyEvent;
use whimbrel_control::{Controller, LossSignal, Seq};
use whimbrel_wire::{Chunk, HeartbeatInfo};

use crate::config::NEVER;
use crate::context::Context;
use crate::error::Discard;
use crate::packet::Packet;
use crate::send::Sending;
use crate::send::path::{HEARTBEAT_INFO_LEN, HeartbeatContent};
use crate::send::probes::{Fate, PathProbes, Probe, Probing};
use crate::send::progress::Progress;
use crate::trace::TimerKind;
use crate::{PathId, PathState};

/// Length of a probe's Heartbeat Info in bytes before its padding: that of a heartbeat, and the probe's number.
const INFO_LEN: usize = HEARTBEAT_INFO_LEN + 8;

impl Sending {
    fn probes_of(&mut self, index: PathId) -> &mut PathProbes {
        let count = self.paths.len().max(index.index() + 1);
        let probing = self.probing.get_or_insert_default();
        if probing.paths.len() < count {
            probing.paths.resize_with(count, PathProbes::default);
        }
        &mut probing.paths[index.index()]
    }

    /// Starts probes that follow the data. `unfilled`: their window grows although it is not fully utilized.
    pub(in crate::send) fn follow_with_probes(&mut self, index: PathId, unfilled: bool) {
        let control = self.paths[index].probe_control(&self.config);
        let probes = self.probes_of(index);
        probes.control = Some(control);
        probes.unfilled = unfilled;
        probes.allowed = 0;
        probes.answers = 0;
        probes.recovery.leave();
    }

    /// Stops probes that follow the data.
    pub(in crate::send) fn rest_from_probes(&mut self, index: PathId) {
        if let Some(probes) = self
            .probing
            .as_mut()
            .and_then(|probing| probing.paths.get_mut(index.index()))
        {
            probes.control = None;
            probes.allowed = 0;
        }
    }

    /// A new path has reused this number: HEARTBEAT ACKs for probes of the earlier path are ignored.
    pub(in crate::send) fn forget_probes(&mut self, index: PathId) {
        if let Some(probes) = self
            .probing
            .as_mut()
            .and_then(|probing| probing.paths.get_mut(index.index()))
        {
            *probes = PathProbes {
                base: probes.next(),
                measure_from: probes.next(),
                ..PathProbes::default()
            };
            self.renew_probe_timer();
        }
    }

    /// Sends a train of `packets` probes, unless other probes are in progress.
    pub(in crate::send) fn send_train(&mut self, index: PathId, packets: u32) {
        let probes = self.probes_of(index);
        if probes.control.is_none() && probes.train.sent == 0 && probes.to_send == 0 {
            probes.to_send = packets;
        }
    }

    /// Returns the congestion window in bytes of the probes that follow the data.
    pub(in crate::send) fn probe_cwnd(&self, index: PathId) -> Option<u64> {
        let probes = self.probing.as_ref()?.paths.get(index.index())?;
        probes.control.as_ref().map(Controller::cwnd)
    }

    /// A data packet was sent on the current path: allows one probe on each path with probes that follow the data.
    pub(in crate::send) fn allow_probes(&mut self, path: PathId) {
        if path != self.choice.sending() {
            return;
        }
        let Some(probing) = &mut self.probing else {
            return;
        };
        for (index, probes) in self.paths.ids().zip(&mut probing.paths) {
            if index != path && probes.control.is_some() {
                probes.allowed = probes.allowed.saturating_add(1);
            }
        }
    }

    pub(in crate::send) fn probing_bytes(&self) -> usize {
        self.probing.as_ref().map_or(0, |probing| {
            let rings: usize = probing.paths.iter().map(|probes| probes.sent.capacity()).sum();
            size_of::<Probing>() + probing.paths.capacity() * size_of::<PathProbes>() + rings * size_of::<Probe>()
        })
    }

    /// Returns the path on which a probe may be sent now.
    pub(crate) fn next_probe(&self) -> Option<PathId> {
        let probing = self.probing.as_ref()?;
        let ready = |index: &PathId| {
            let (path, probes) = (&self.paths[*index], &probing.paths[index.index()]);
            // RFC 9260 §5.4: an unconfirmed address gets single heartbeats only.
            path.in_use()
                && path.state() != PathState::Unconfirmed
                && probes.may_send()
                && (probes.to_send > 0 || *index != self.choice.sending())
        };
        self.paths.ids().take(probing.paths.len()).find(ready)
    }

    /// Returns the length of a probe in bytes as the window counts it: that of a data packet.
    fn probe_len(&self) -> usize {
        self.largest_chunk().next_multiple_of(4)
    }

    /// Writes a probe, the only chunk of its packet.
    pub(crate) fn write_probe(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) {
        let index = packet.path();
        let (len, timeout) = (self.probe_len(), self.paths[index].timeout());
        let nonce = ctx.random.next_u64();
        let probes = self.probes_of(index);
        let number = probes.next();
        if probes.to_send > 0 {
            probes.to_send -= 1;
            if probes.train.sent == 0 {
                probes.train.first = number;
            }
            probes.train.sent += 1;
        } else {
            probes.allowed = probes.allowed.saturating_sub(1);
        }
        probes.sent.push_back(Probe {
            nonce,
            sent_at: ctx.now,
            fate: Fate::InFlight,
        });
        probes.flight += len as u64;
        if probes.timer == NEVER {
            probes.timer = ctx.now + timeout;
        }
        self.renew_probe_timer();
        let content = HeartbeatContent {
            nonce,
            sent_at: ctx.now,
            path: index,
        };
        let info = &mut ctx.scratch.parameters;
        info.clear();
        info.extend_from_slice(&content.to_bytes());
        info.extend_from_slice(&number.to_be_bytes());
        info.resize(INFO_LEN.max(len.saturating_sub(HeartbeatInfo::HEADER_LEN)), 0);
        packet.push(&Chunk::Heartbeat(HeartbeatInfo(info)));
    }

    /// A probe was sent in a packet of this length.
    pub(crate) fn note_probe_sent(&mut self, wire_len: usize) {
        self.stats.path_probes_sent += 1;
        self.stats.path_probe_bytes += wire_len as u64;
    }

    /// Handles the HEARTBEAT ACK of a probe, in which the probe's number follows the heartbeat's content.
    pub(in crate::send) fn on_probe_answer(&mut self, ctx: &mut Context<'_>, info: &[u8]) -> Result<Progress, Discard> {
        let (content, rest) = info.split_at_checked(HEARTBEAT_INFO_LEN).ok_or(Discard::InvalidChunk)?;
        let content = HeartbeatContent::from_bytes(content).ok_or(Discard::InvalidChunk)?;
        let number = rest
            .first_chunk::<8>()
            .map(|bytes| Seq::from_be_bytes(*bytes))
            .ok_or(Discard::InvalidChunk)?;
        let index = content.path;
        let limit = Seq::from(self.config.missing_reports);
        let (len, sack_frequency) = (self.probe_len() as u64, self.config.sack_frequency);
        let packet = self.packet_bytes(index);
        let room = u64::from(self.window.advertised());
        let path = self.paths.get(index).ok_or(Discard::InvalidChunk)?;
        let timeout = path.timeout();
        let probes = self
            .probing
            .as_mut()
            .and_then(|probing| probing.paths.get_mut(index.index()))
            .ok_or(Discard::Unexpected)?;
        let flight_before = probes.flight;
        let probe = probes
            .probe(number)
            .filter(|probe| probe.nonce == content.nonce && probe.fate != Fate::Answered)
            .ok_or(Discard::Unexpected)?;
        let rtt = ctx.now.since(probe.sent_at);
        if core::mem::replace(&mut probe.fate, Fate::Answered) == Fate::InFlight {
            probes.flight = probes.flight.saturating_sub(len);
        }
        if probes.answers == 0 {
            probes.flight_before = flight_before;
        }
        probes.answers += 1;
        let train = &mut probes.train;
        if train.sent > 0 && number >= train.first {
            if train.answered == 0 {
                train.first_at = ctx.now;
            }
            train.answered += 1;
            train.last_at = ctx.now;
        }
        // Probes sent `limit` or more before this one are lost (RFC 9260 §7.2.4).
        let lost = probes.lose((number + 1).saturating_sub(limit).max(probes.base), len);
        let measures = number >= probes.measure_from;
        if measures {
            probes.measure_from = probes.next();
        }
        probes.release();
        // A receiver delays SACKs, but not if there is a gap (RFC 9260 §6.2, §6.7).
        let is_gap = probes.sent.front().is_some_and(|_| probes.base < number);
        if probes.answers >= sack_frequency || is_gap || probes.flight == 0 {
            probes.acknowledge(ctx.now, len, room, rtt, number, path);
        }
        if let Some(lost) = lost {
            probes.apply_loss(ctx.now, LossSignal::Gap, lost, len, path);
        }
        probes.timer = if probes.flight > 0 { ctx.now + timeout } else { NEVER };
        let train = probes.end_train(packet);
        self.stats.path_probes_answered += 1;
        self.stats.path_probe_bytes += info.len().next_multiple_of(4) as u64 + 20;
        self.errors = 0;
        // The path is not idle. If no large HEARTBEAT ACK arrives, usual heartbeats continue.
        self.paths[index].heartbeat.last_probe = ctx.now;
        self.renew_probe_timer();
        if measures {
            self.on_rtt_sample(ctx, index, rtt);
        }
        self.path_answered(ctx, index);
        self.inform_policy(ctx, index, PolicyEvent::Answered { rtt });
        if let Some(train) = train {
            self.inform_policy(ctx, index, train);
        }
        Ok(self.take_progress())
    }

    /// Returns the length of a probe's packet in bytes with IP and UDP headers.
    fn packet_bytes(&self, index: PathId) -> u64 {
        let headers = self
            .paths
            .get(index)
            .map_or(0, |path| usize::from(path.mtu()) - path.max_packet());
        (self.probe_len() + whimbrel_wire::COMMON_HEADER_LEN + headers) as u64
    }

    pub(in crate::send) fn on_probe_timer(&mut self, ctx: &mut Context<'_>) {
        let len = self.probe_len() as u64;
        for index in self.paths.ids() {
            let packet = self.packet_bytes(index);
            let Some(probes) = self
                .probing
                .as_mut()
                .and_then(|probing| probing.paths.get_mut(index.index()))
            else {
                continue;
            };
            if probes.timer > ctx.now {
                continue;
            }
            probes.timer = NEVER;
            if let Some(lost) = probes.lose(probes.next(), len) {
                probes.apply_loss(ctx.now, LossSignal::Timeout, lost, len, &self.paths[index]);
            }
            probes.answers = 0;
            probes.release();
            let train = probes.end_train(packet);
            self.trace_timer(ctx, TimerKind::Heartbeat, Some(index));
            // A peer may ignore such large heartbeats. Therefore a usual heartbeat is sent, whose timeout counts as an
            // error (RFC 9260 §8.3). On the sending path, data gives this information.
            if index != self.choice.sending() {
                self.probe_soon(ctx.now, index);
            }
            if let Some(train) = train {
                self.inform_policy(ctx, index, train);
            }
        }
        self.renew_probe_timer();
    }

    fn renew_probe_timer(&mut self) {
        let next = self.probing.as_ref().map_or(NEVER, |probing| {
            probing.paths.iter().map(|probes| probes.timer).min().unwrap_or(NEVER)
        });
        self.timers().probing = next;
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::{Span, Time};

    use super::*;
    use crate::config::{AssociationConfig, Resolved};
    use crate::send::path::Path;

    const LEN: u64 = 1468;

    /// Twenty probes in flight with a window of twenty packets.
    fn twenty() -> (Path, PathProbes) {
        let config = Resolved::new(AssociationConfig {
            initial_cwnd: Some(20 * LEN as u32),
            ..AssociationConfig::default()
        });
        let remote = "10.0.0.1:0".parse().expect("an address");
        let path = Path::new(&config, None, remote, remote, true);
        let mut probes = PathProbes {
            control: Some(path.probe_control(&config)),
            ..PathProbes::default()
        };
        send(&mut probes, 20);
        (path, probes)
    }

    fn send(probes: &mut PathProbes, count: u64) {
        for nonce in 0..count {
            probes.sent.push_back(Probe {
                nonce,
                sent_at: Time::ZERO,
                fate: Fate::InFlight,
            });
            probes.flight += LEN;
        }
    }

    fn answer(probes: &mut PathProbes, numbers: core::ops::Range<Seq>) {
        for number in numbers {
            if let Some(probe) = probes.probe(number).filter(|probe| probe.fate == Fate::InFlight) {
                probe.fate = Fate::Answered;
                probes.flight -= LEN;
            }
        }
        probes.release();
    }

    fn cwnd(probes: &PathProbes) -> u64 {
        probes.control.as_ref().map_or(0, Controller::cwnd) / LEN
    }

    fn lose(probes: &mut PathProbes, end: Seq, path: &Path) {
        let lost = probes.lose(end, LEN).expect("some are in flight");
        probes.apply_loss(Time::ZERO, LossSignal::Gap, lost, LEN, path);
    }

    #[test]
    fn section_7_2_4_losses_in_one_window_of_probes_reduce_it_once() {
        let (path, mut probes) = twenty();
        answer(&mut probes, 1..5);
        lose(&mut probes, 1, &path);
        assert_eq!(cwnd(&probes), 10);
        answer(&mut probes, 6..9);
        lose(&mut probes, 6, &path);
        assert_eq!(cwnd(&probes), 10, "the same window of data");
        // All probes in flight at that time are acknowledged: the next loss belongs to another window.
        answer(&mut probes, 6..20);
        send(&mut probes, 10);
        lose(&mut probes, 21, &path);
        assert_eq!(cwnd(&probes), 5);
    }

    #[test]
    fn an_underutilized_window_grows_only_if_the_policy_requests_it() {
        // RFC 9260 §7.2.1: five probes in flight do not fill a window of twenty packets.
        for (unfilled, room, expected) in [(false, 100, 20), (true, 100, 25), (true, 22, 22), (true, 20, 20)] {
            let (path, mut probes) = twenty();
            answer(&mut probes, 0..20);
            send(&mut probes, 5);
            probes.unfilled = unfilled;
            for number in 20..25 {
                probes.flight_before = probes.flight;
                answer(&mut probes, number..number + 1);
                probes.answers = 1;
                probes.acknowledge(Time::ZERO, LEN, room * LEN, Span::from_millis(50), number, &path);
            }
            assert_eq!(cwnd(&probes), expected, "{unfilled}, {room}");
        }
    }
}
