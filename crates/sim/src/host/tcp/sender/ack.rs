//! Processing of an acknowledgement, from top to bottom: what is new, reports to the parts, losses, marks.

use whimbrel_control::{AckSample, Cause, CouplingLimits, LossEvent, LossSignal, MarkEvent, Stamps};

use super::super::scoreboard::{AckOutcome, Lost};
use super::super::time_of;
use super::*;

impl TcpSender {
    pub(super) fn on_ack(&mut self, context: &mut Context<'_>, segment: &TcpSegment) {
        let una = self.board.una();
        let here = self.wire(una);
        let offset = |number: u32| una.checked_add_signed(distance(here, number));
        let is_old = distance(here, segment.ack) < 0;
        let cumulative = offset(segment.ack).unwrap_or(una).max(una);
        let blocks = if self.agreed.sack { segment.sack.as_slice() } else { &[] };
        let blocks = blocks
            .iter()
            .filter_map(|(from, to)| Some((offset(*from)?, offset(*to)?)));
        let flight_before = self.flight();
        let was_empty = self.board.is_empty();
        let Some(outcome) = self.board.on_ack(cumulative, blocks) else {
            context.flow.discarded += 1;
            return;
        };
        self.stats.sacks_received += 1;
        self.stats.data_bytes_acked += outcome.payload;
        if !is_old {
            let window = u64::from(segment.window) << self.agreed.scale;
            self.right_edge = self.right_edge.max(cumulative + window);
        }
        self.measure(context, segment, &outcome);
        // RFC 5681 §2; with SACK, RFC 6675 §2: it must report something new.
        let is_duplicate = !outcome.advanced
            && !is_old
            && !was_empty
            && segment.sequence_len() == 0
            && (!self.agreed.sack || outcome.packets > 0);
        if self.board.first() > 0 {
            self.reduced.on_cumulative_ack(self.board.first() - 1);
        }
        if self.agreed.ecn && segment.flags.has(TcpFlags::ECE) {
            self.on_echo(context, &outcome, segment);
        }
        self.report(context, segment, &outcome, is_duplicate, flight_before);
        if outcome.advanced {
            self.check_spurious(context, segment);
            self.timeouts = 0;
            self.probed = false;
            // RFC 6298 §5.2, §5.3
            self.rto_at = (!self.board.is_empty()).then(|| context.now + self.timeout());
        }
        if self.config.flavour.uses_sack() {
            self.find_losses(context, &outcome, flight_before);
        } else {
            self.count_duplicates(context, &outcome, is_duplicate, flight_before);
        }
        self.trace_window(context);
    }

    /// Returns the bytes that count as in flight for window controls: the whole window, if it holds back a segment.
    fn flight(&self) -> u64 {
        if self.limited {
            self.pipe().max(self.control.cwnd())
        } else {
            self.pipe()
        }
    }

    pub(super) fn take_rtt(&mut self, context: &mut Context<'_>, sample: Span) {
        self.rtt.on_sample(sample);
        self.trace(context, TraceKinds::RTT, || TraceEvent::Rtt {
            path: PathId(0),
            sample,
            srtt: self.rtt.srtt().unwrap_or(sample),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
        });
    }

    /// Measures the round-trip time (RFC 6298 §3): a retransmitted segment gives no sample unless a timestamp identifies the
    /// transmission that arrived (RFC 7323 §4.1).
    fn measure(&mut self, context: &mut Context<'_>, segment: &TcpSegment, outcome: &AckOutcome) {
        let Some((_, newest)) = outcome.newest else { return };
        let sent_at = if !newest.retransmitted {
            newest.sent_at
        } else if let Some((_, echo)) = segment.timestamps.filter(|_| outcome.advanced) {
            time_of(echo, context.now)
        } else {
            return;
        };
        self.take_rtt(context, context.now.since(sent_at));
    }

    /// Reports to the parts what is new.
    fn report(
        &mut self,
        context: &mut Context<'_>,
        segment: &TcpSegment,
        outcome: &AckOutcome,
        is_duplicate: bool,
        flight_before: u64,
    ) {
        let now = context.now;
        let (acked, packets) = self.newly_acknowledged(outcome, is_duplicate);
        if acked == 0 && !outcome.advanced {
            return;
        }
        self.delivered += acked;
        let newest = outcome.newest.map(|(seq, _)| seq);
        let rtt = outcome
            .newest
            .filter(|(_, slot)| !slot.retransmitted)
            .map(|(_, slot)| now.since(slot.sent_at));
        let min_rtt = self.rtt.min_rtt();
        let rate = match (&mut self.delivery, outcome.newest) {
            (Some(delivery), newest) => {
                delivery.on_delivered(now, acked);
                newest.and_then(|(_, slot)| delivery.sample(&slot.stamp, min_rtt))
            }
            (None, _) => None,
        };
        let stamps = segment
            .timestamps
            .filter(|_| outcome.advanced)
            .map(|(value, echo)| Stamps {
                sent: time_of(echo, now),
                received: time_of(value, now),
            });
        // RFC 3168 §6.1.2: an acknowledgement with a classic echo does not make the window grow.
        let echoes = self.agreed.ecn && self.ecn == TcpEcn::Classic && segment.flags.has(TcpFlags::ECE);
        let counted = if self.count_acks {
            acked.min(u64::from(self.segment_bytes))
        } else {
            acked
        };
        let sample = AckSample {
            now,
            acked: counted,
            packets: packets.max(1),
            flight_before,
            flight: self.pipe(),
            cumulative_advanced: outcome.advanced,
            // SCTP's credit for growth ends when everything is acknowledged (RFC 9260 §7.2.2). TCP has no such rule, and its window
            // may be as small as the data of a single acknowledgement: only an application without data ends it.
            all_acked: self.board.is_empty() && !self.has_new(),
            in_recovery: echoes || matches!(self.recovering, Recovering::Fast(_)),
            acked_to: self.board.first(),
            newest: newest.unwrap_or_else(|| self.board.first() + u64::from(self.dup_acks)),
            next: self.board.next_seq(),
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt,
            delivered: self.delivered,
            rate,
            stamps,
            eci: self.eci.then(|| segment.flags.has(TcpFlags::ECI)),
        };
        self.control.on_ack(&sample, CouplingLimits::NONE);
    }

    /// Returns the bytes and packets that an acknowledgement reports for the first time. Without SACK, a duplicate acknowledgement
    /// reports that a segment has arrived, but not which one. It is not counted again when a later acknowledgement identifies it.
    fn newly_acknowledged(&mut self, outcome: &AckOutcome, is_duplicate: bool) -> (u64, u32) {
        if self.agreed.sack {
            return (outcome.bytes, outcome.packets);
        }
        let segment = u64::from(self.segment_bytes);
        if is_duplicate {
            self.estimated += segment;
            return (segment, 1);
        }
        let known = self.estimated.min(outcome.bytes);
        self.estimated = if self.board.is_empty() {
            0
        } else {
            self.estimated - known
        };
        let packets = outcome.packets.saturating_sub((known / segment) as u32);
        (outcome.bytes - known, packets)
    }

    /// Handles an ECN echo: RFC 3168 §6.1.2, or RFC 8257 §3.3 where echoes are accurate.
    fn on_echo(&mut self, context: &mut Context<'_>, outcome: &AckOutcome, segment: &TcpSegment) {
        self.stats.ecne_received += 1;
        let accurate = self.ecn == TcpEcn::Accurate;
        let reduces = !self.reduced.is_active();
        self.trace(context, TraceKinds::ECN, || TraceEvent::EcneReceived {
            path: PathId(0),
            tsn: Tsn(segment.ack),
            reduces,
        });
        // A classic echo continues until CWR arrives: it reports a mark once.
        if !reduces && !accurate || accurate && outcome.packets == 0 {
            return;
        }
        let mark = MarkEvent {
            now: context.now,
            seq: outcome.newest.map_or(self.board.first(), |(seq, _)| seq),
            packets: if accurate { outcome.packets } else { 1 },
            next: self.board.next_seq(),
            flight: self.pipe(),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            reduces,
        };
        self.control.on_mark(&mark, CouplingLimits::NONE);
        if reduces {
            // Until the segment that carries CWR is acknowledged.
            self.reduced.enter(self.board.next_seq());
            self.verdict = None;
            self.send_cwr = true;
            self.stats.ecn_reductions += 1;
        }
    }

    /// Tahoe, Reno, NewReno: detects losses by counting duplicate acknowledgements.
    fn count_duplicates(
        &mut self,
        context: &mut Context<'_>,
        outcome: &AckOutcome,
        is_duplicate: bool,
        flight_before: u64,
    ) {
        if outcome.advanced {
            self.dup_acks = 0;
            match self.recovering {
                Recovering::Fast(until) | Recovering::Timeout(until) if self.board.first() > until => {
                    self.end_recovery()
                }
                Recovering::Fast(_) if self.config.flavour == TcpFlavour::NewReno => {
                    // RFC 6582 §3.2 step 3, partial acknowledgement: the next one is lost as well.
                    self.left = (self.left + 1).saturating_sub(outcome.front_packets);
                    let lost = self.board.give_up_first();
                    self.urgent = true;
                    self.more_losses(context, &lost, flight_before);
                }
                Recovering::Fast(_) => self.end_recovery(),
                Recovering::Timeout(_) => {}
                Recovering::No => self.left = 0,
            }
        } else if is_duplicate {
            self.dup_acks += 1;
            match self.recovering {
                Recovering::No => {
                    // RFC 6582 §3.2 step 2: not for duplicates that a timeout has caused.
                    let fresh = self.guard.is_none_or(|guard| self.board.first() > guard);
                    if self.dup_acks >= self.threshold() && fresh {
                        self.left = self.dup_acks;
                        let lost = self.board.give_up_first();
                        self.enter_recovery(context, &lost, flight_before);
                    } else if self.config.limited_transmit {
                        // RFC 3042 §2: two segments beyond the window at most
                        self.left = self.dup_acks.min(2);
                    }
                }
                Recovering::Fast(_) => self.left += 1,
                Recovering::Timeout(_) => {}
            }
        }
    }

    /// SACK, FACK: detects losses on the scoreboard.
    fn find_losses(&mut self, context: &mut Context<'_>, outcome: &AckOutcome, flight_before: u64) {
        if outcome.advanced {
            match self.recovering {
                Recovering::Fast(until) | Recovering::Timeout(until) if self.board.first() > until => {
                    self.end_recovery();
                    // Losses of segments sent after the start of recovery belong to another window of data.
                    let later = self.later.take();
                    if let Some((lost, verdict)) = later.filter(|(lost, _)| lost.last >= self.board.first()) {
                        let loss = self.loss_event(context.now, LossSignal::Gap, &lost, flight_before);
                        self.episode += 1;
                        self.begin_recovery(&loss, verdict);
                    }
                }
                _ => {}
            }
        }
        if outcome.packets == 0 {
            return;
        }
        let threshold = self.threshold();
        let rule = match (self.config.flavour, self.recovering) {
            // Mathis and Mahdavi 1996, §2.2: in recovery every hole has left the network.
            (TcpFlavour::Fack, Recovering::Fast(_)) => LossRule::Forward(1),
            (TcpFlavour::Fack, _) => LossRule::Forward(threshold),
            _ => LossRule::Sacked(threshold),
        };
        let again = self
            .rules
            .multiple_fast_retransmit
            .then_some(self.config.dup_ack_threshold);
        let lost = self.board.find_losses(rule, again);
        if lost.packets == 0 {
            return;
        }
        match self.recovering {
            Recovering::No => self.enter_recovery(context, &lost, flight_before),
            Recovering::Fast(until) | Recovering::Timeout(until) if lost.first > until => {
                let inherited = match self.later {
                    Some((_, verdict)) if verdict != Verdict::Transmission => Some(verdict),
                    _ => None,
                };
                let episode = self.episode + 1;
                let (loss, verdict) = self.judge(context, LossSignal::Gap, &lost, flight_before, episode, inherited);
                // The reaction follows when this recovery ends.
                let cwnd = self.control.cwnd();
                let reduces = verdict != Verdict::Transmission && inherited.is_none();
                self.note_reaction(context, &loss, verdict, cwnd, reduces, episode);
                match &mut self.later {
                    Some((later, Verdict::Transmission)) => {
                        later.merge(&lost);
                        self.later = Some((*later, verdict));
                    }
                    Some((later, _)) => later.merge(&lost),
                    None => self.later = Some((lost, verdict)),
                }
            }
            _ => self.more_losses(context, &lost, flight_before),
        }
    }

    /// Returns the number of segments that must have arrived after a lost one.
    fn threshold(&self) -> u32 {
        let usual = self.config.dup_ack_threshold;
        let outstanding = self.board.next_seq() - self.board.first();
        let is_tail = (self.rules.small_window || self.probed) && self.board.ends_sacked();
        if is_tail {
            return 1;
        }
        // RFC 5827 §3: with little outstanding data, fewer are enough.
        if self.rules.early_retransmit && outstanding <= u64::from(usual) && !self.has_new() {
            return (outstanding as u32).saturating_sub(1).max(1);
        }
        usual
    }

    pub(super) fn loss_event(&self, now: Time, signal: LossSignal, lost: &Lost, flight_before: u64) -> LossEvent {
        LossEvent {
            now,
            signal,
            first_lost: lost.first,
            last_lost: lost.last,
            packets: lost.packets,
            copies: 0,
            bytes: lost.bytes,
            label: self.label(lost.first),
            next: self.board.next_seq(),
            flight_before,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
        }
    }

    pub(super) fn trace_lost(&self, context: &mut Context<'_>, lost: &Lost) {
        self.trace(context, TraceKinds::TSNS, || TraceEvent::TsnLost {
            path: PathId(0),
            tsn: Tsn(self.label(lost.first)),
            rule: whimbrel_proto::LossRule::MissingReports,
        });
    }

    /// Handles the first losses of a window of data: fast retransmit and fast recovery.
    fn enter_recovery(&mut self, context: &mut Context<'_>, lost: &Lost, flight_before: u64) {
        self.episode += 1;
        let (loss, verdict) = self.judge(context, LossSignal::Gap, lost, flight_before, self.episode, None);
        let before = self.control.cwnd();
        self.begin_recovery(&loss, verdict);
        let reduces = self.control.cwnd() < before;
        self.note_reaction(context, &loss, verdict, before, reduces, self.episode);
    }

    fn begin_recovery(&mut self, loss: &LossEvent, verdict: Verdict) {
        self.stats.recoveries += 1;
        self.by_transmission = verdict == Verdict::Transmission;
        let until = self.board.next_seq().saturating_sub(1);
        let already = self.reduced.is_active();
        if self.config.flavour == TcpFlavour::Tahoe && !self.by_transmission {
            // Slow start from one segment, as after a timeout; everything is retransmitted.
            let collapse = LossEvent {
                signal: LossSignal::Timeout,
                ..*loss
            };
            self.control.react(&collapse, verdict, already, CouplingLimits::NONE);
            self.board.give_up_all();
            self.recovering = Recovering::Timeout(until);
            self.guard = Some(until);
            self.left = 0;
        } else {
            self.control.react(loss, verdict, already, CouplingLimits::NONE);
            self.recovering = Recovering::Fast(until);
            self.urgent = true;
        }
        if !self.by_transmission && !already {
            self.reduced.enter(until);
            self.verdict = Some(verdict);
        }
    }

    /// Handles more losses in a window of data in recovery.
    fn more_losses(&mut self, context: &mut Context<'_>, lost: &Lost, flight_before: u64) {
        if lost.packets == 0 {
            return;
        }
        // A loss after the reduction would be judged by the reduced window.
        let inherited = self.verdict.filter(|_| self.reduced.is_active());
        let (loss, verdict) = self.judge(context, LossSignal::Gap, lost, flight_before, self.episode, inherited);
        let before = self.control.cwnd();
        if verdict != Verdict::Transmission {
            let already = self.reduced.is_active();
            self.by_transmission = false;
            self.control.react(&loss, verdict, already, CouplingLimits::NONE);
            if !already {
                self.reduced.enter(self.board.next_seq().saturating_sub(1));
                self.verdict = Some(verdict);
            }
        }
        let reduces = self.control.cwnd() < before;
        self.note_reaction(context, &loss, verdict, before, reduces, self.episode);
    }

    /// Judges newly declared losses, in a loss episode whose verdict they may inherit.
    pub(super) fn judge(
        &mut self,
        context: &mut Context<'_>,
        signal: LossSignal,
        lost: &Lost,
        flight_before: u64,
        episode: u32,
        inherited: Option<Verdict>,
    ) -> (LossEvent, Verdict) {
        let loss = self.loss_event(context.now, signal, lost, flight_before);
        if let Some(delivery) = &mut self.delivery {
            delivery.on_lost(loss.bytes);
        }
        if signal == LossSignal::Gap {
            self.stats.fast_retransmits += u64::from(lost.packets > 0);
            self.trace_lost(context, lost);
        }
        let verdict = if let Some(verdict) = inherited {
            self.control.on_inherited(&loss);
            verdict
        } else {
            self.control.judge(&loss)
        };
        let counts = context.window().contains(context.now);
        for seq in self.board.given_up() {
            let cause = self.truth.noticed(self.label(*seq));
            if counts {
                context.flow.verdicts.add(cause, signal, verdict);
                self.episodes
                    .add(&mut context.flow.verdicts, (0, episode), cause, verdict);
                let congestion = cause.filter(|cause| *cause == Cause::Congestion);
                self.occasions.add((0, signal), congestion, verdict, false);
            }
        }
        (loss, verdict)
    }

    /// Records a verdict, after the window has changed or not.
    pub(super) fn note_reaction(
        &mut self,
        context: &mut Context<'_>,
        loss: &LossEvent,
        verdict: Verdict,
        cwnd_before: u64,
        reduces: bool,
        episode: u32,
    ) {
        if context.window().contains(context.now) && !self.occasions.is_empty() {
            self.occasions.add((0, loss.signal), None, verdict, reduces);
        }
        self.occasions.close(&mut context.flow.verdicts);
        self.trace(context, TraceKinds::VERDICTS, || TraceEvent::Verdict {
            path: PathId(0),
            tsn: Tsn(loss.label),
            signal: loss.signal,
            verdict,
            cwnd_before,
            cwnd: self.control.cwnd(),
            strength: None,
            episode,
        });
    }

    fn end_recovery(&mut self) {
        self.control.begin_avoidance();
        self.recovering = Recovering::No;
        self.by_transmission = false;
        self.left = 0;
        self.undo = None;
    }

    /// Detects a spurious timeout (RFC 3522): an acknowledgement of a transmission from before the timeout.
    fn check_spurious(&mut self, context: &mut Context<'_>, segment: &TcpSegment) {
        let Some(again_at) = self.undo.take() else { return };
        if segment.timestamps.is_some_and(|(_, echo)| distance(again_at, echo) < 0) {
            self.control.on_spurious_timeout();
            self.board.revive();
            self.end_recovery();
            self.reduced.leave();
            self.guard = None;
            self.trace_window(context);
        }
    }
}
