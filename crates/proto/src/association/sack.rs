//! Processing of a received SACK (RFC 9260 §6.2.1, §6.3, §7.2).

use whimbrel_control::multipath::SackPath;
use whimbrel_control::{AckSample, CouplingLimits, Span, Time};
use whimbrel_wire::{Sack, TIMESTAMP_LEN, Tsn};

use super::sack_recorder::SackRecorder;
use super::stamping::Echo;
use super::{Association, Context, State};
use crate::config::NEVER;
use crate::error::Discard;
use crate::event::CloseReason;
use crate::send::{Extent, MissingRules, PathAck, SackOutcome, SackReport};
use crate::trace::{TraceEvent, TraceKinds};
use crate::{PathId, PathState};

impl Association {
    /// Processes a SACK chunk. Other forms of SACKs begin at `apply_sack`.
    // [9260:6-5, 6-7]
    pub(super) fn on_sack(&mut self, ctx: &mut Context<'_>, sack: &Sack<'_>, from: PathId) -> Result<(), Discard> {
        let extent = self.extent_of(sack.gaps.len() + sack.duplicates.len());
        self.apply_sack(ctx, sack, from, extent)
    }

    /// Returns what a SACK with this number of entries says about TSNs above its last block. More blocks would have fitted if it is smaller than
    /// the largest packet.
    pub(super) fn extent_of(&self, entries: usize) -> Extent {
        let echoes = self.agreed.stamping.as_ref().map_or(0, |stamping| stamping.returned());
        if 4 * (entries + 1) + TIMESTAMP_LEN * echoes <= usize::from(self.sender.max_data) {
            Extent::Roomy
        } else {
            Extent::Cut
        }
    }

    /// Checks the state, takes what the SACK returns besides acknowledgements, and applies it.
    pub(super) fn apply_sack(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        from: PathId,
        extent: Extent,
    ) -> Result<(), Discard> {
        if !self.state.may_send_data() {
            return Err(Discard::Unexpected);
        }
        self.user.stats.duplicates_reported += sack.duplicates.len() as u64;
        let echo = if self.agreed.stamping.is_some() || self.agreed.eci.in_use {
            self.take_echo(ctx.now, from, sack.congestion_indicated)
        } else {
            Echo::NONE
        };
        self.on_acknowledgement(ctx, sack, extent, Some((sack.a_rwnd, from)), &echo)
    }

    /// Processes a SACK that another one overtook, extended by the caller to report what is known and what it adds. Its
    /// window is outdated and is not used.
    pub(super) fn apply_overtaken(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        from: PathId,
    ) -> Result<(), Discard> {
        let window = u64::from(self.sender.peer_rwnd) + self.sender.outstanding.data_in_flight();
        let sack = Sack {
            a_rwnd: u32::try_from(window).unwrap_or(u32::MAX),
            ..*sack
        };
        self.apply_sack(ctx, &sack, from, Extent::Whole)
    }

    /// Processes the cumulative TSN ack of a SHUTDOWN (RFC 9260 §9.2), which does not report gaps or a window.
    pub(super) fn on_cumulative_ack(&mut self, ctx: &mut Context<'_>, tsn: Tsn) -> Result<(), Discard> {
        let sack = Sack {
            cumulative_tsn_ack: tsn,
            a_rwnd: 0,
            gaps: whimbrel_wire::GapBlocks::from_wire_bytes(&[]),
            duplicates: whimbrel_wire::DuplicateTsns::from_wire_bytes(&[]),
            congestion_indicated: false,
            packets: 0,
        };
        self.on_acknowledgement(ctx, &sack, Extent::Cut, None, &Echo::NONE)
    }

    /// Updates the outstanding chunks: removes and marks those acknowledged, counts missing reports and declares chunks lost.
    fn update_outstanding(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        extent: Extent,
        reported: Option<(u32, PathId)>,
        echo: &Echo,
    ) -> SackOutcome {
        let in_recovery = self.epochs(PathId(0)).recovery.is_active();
        let (limit, early) = if self.config.parts.recovery.early_retransmit {
            (self.missing_limit(), self.retransmits_early())
        } else {
            (self.config.missing_reports, false)
        };
        // An overtaken NEW GAPS adds to the known ranges.
        let overtaken = echo.overtaken && !self.uses_new_gaps();
        ctx.scratch.lost.clear();
        let mut recorder = SackRecorder {
            paths: &mut self.paths,
            trace: ctx.trace,
            now: ctx.now,
            association: self.id,
            lost: &mut ctx.scratch.lost,
            rates: self.sender.rates.as_deref_mut(),
            arrived_on: reported.map(|(_, from)| from),
            arrival: reported
                .filter(|_| self.config.parts.reporting.sack_path == SackPath::LastArrival)
                .map(|(_, from)| (from, !sack.duplicates.is_empty())),
            echoes: match &self.agreed.stamping {
                Some(stamping) if reported.is_some() => stamping.echoes(),
                _ => &[],
            },
            overtaken,
        };
        let rules = MissingRules {
            limit,
            in_recovery,
            early,
            arrivals: sack.packets,
            extent,
        };
        self.sender.outstanding.on_sack(sack, rules, &mut recorder)
    }

    /// Applies the acknowledgements of a SACK or a SHUTDOWN: chunks, round-trip times, growth and T3-rtx of each path, end of the recovery, losses,
    /// the peer's window. cwnd grows before losses reduce it. `reported`: a_rwnd and the path of arrival, which a SHUTDOWN does not have.
    ///
    /// What options beyond the standard do is called only if they are in use: each such call has its condition beside it.
    // [9260:7.2.4-6, 8.1-5]
    fn on_acknowledgement(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        extent: Extent,
        reported: Option<(u32, PathId)>,
        echo: &Echo,
    ) -> Result<(), Discard> {
        let acked_before = self.sender.outstanding.data_acked();
        let outcome = self.update_outstanding(ctx, sack, extent, reported, echo);
        let (advanced, newly_acked, reneged) = match outcome {
            SackOutcome::Processed {
                advanced,
                newly_acked,
                reneged,
            } => (advanced, newly_acked, reneged),
            SackOutcome::OldWithCopies => (false, false, false),
            SackOutcome::Old => {
                // The SACK reports nothing about chunks, but it shows that a packet has arrived: new data may follow (RFC 9260 §6.1
                // D). With several paths, the SACKs of a slow path are often overtaken.
                self.allow_burst();
                return Err(Discard::OldSack);
            }
            SackOutcome::Impossible => return self.on_impossible_sack(ctx),
        };
        self.user.stats.sacks_received += 1;
        let acknowledged = self.sender.outstanding.data_acked() - acked_before;
        self.user.stats.data_bytes_acked += acknowledged;
        if acknowledged > 0 {
            self.note_use();
        }
        // Whatever a SACK acknowledges, it shows that the peer can be reached.
        if newly_acked {
            // RFC 9260 §8.1
            self.errors = 0;
            self.sender.timeouts_without_ack = 0;
        }
        let mut report = self.sender.outstanding.take_report();
        for index in self.paths.ids() {
            report.of_mut(index).was_reduced = self.epochs(index).reduced.is_active();
        }
        if self.config.recovers {
            self.check_recovery(ctx, sack, echo, &report);
        }
        for index in self.paths.ids() {
            let sample = match self.paths[index].take_sample() {
                None if echo.stamps.is_some() => self.stamped_rtt(ctx.now, index, echo, report.of(index)),
                sample => sample,
            };
            if let Some(sample) = sample {
                self.on_rtt_sample(ctx, index, sample);
            }
            let from = reported.map(|(_, from)| from);
            self.apply_path_acknowledgement(ctx, index, report.of_mut(index), advanced, from, echo);
        }
        if extent == Extent::Cut && !sack.gaps.is_empty() {
            self.take_out_unreported(ctx.now, &report);
        }
        self.end_epochs(ctx);
        if let Some(rates) = &mut self.sender.rates {
            rates.release(self.sender.outstanding.base());
        }
        self.apply_losses(ctx, &report);
        if self.config.parts.recovery.tail_loss_probe {
            self.renew_tail_probes(ctx.now, &report);
        }
        if reneged {
            self.start_missing_t3(ctx.now);
        }
        if let Some((a_rwnd, _)) = reported.filter(|_| outcome != SackOutcome::OldWithCopies) {
            self.apply_window(a_rwnd);
        }
        if self.multipath.policy.is_some() {
            self.inform_policy_of_sack(ctx, sack, &report);
        }
        self.sender.outstanding.recycle(report);
        self.allow_burst();
        if newly_acked && self.config.parts.recovery.small_window {
            self.recover_small_window(ctx);
        }
        if self.tuning.is_some() {
            self.tune_send(ctx);
        }
        self.notify_user_of_progress();
        if self.state != State::Established {
            self.advance_shutdown(ctx);
        }
        Ok(())
    }

    // [9260:7.2.1-9]
    fn apply_path_acknowledgement(
        &mut self,
        ctx: &mut Context<'_>,
        index: PathId,
        ack: &mut PathAck,
        advanced: bool,
        from: Option<PathId>,
        echo: &Echo,
    ) {
        if ack.acked > 0 {
            let growth = match self.multipath.spread {
                Some(_) => self.coupled_growth(ctx.now, index, ack.acked),
                None => 1.0,
            };
            let sample = self.ack_sample(ctx.now, index, ack, advanced, from, echo);
            let path = &mut self.paths[index];
            ack.filled = sample.flight_before >= path.control.cwnd();
            path.control.on_ack(&sample, CouplingLimits::growth(growth));
            path.one_packet_only = false;
            // Retransmissions count too: a path may carry nothing else.
            path.unanswered.on_data_acked(ack.newest_sent_at.is_some());
        } else if !ack.again {
            return;
        }
        let path = &mut self.paths[index];
        // RFC 9260 §6.3.2 rules R2 and R3. Chunks that wait for retransmission are not in flight: `note_sent` starts the timer again.
        if self.sender.outstanding.chunks_in_flight(index) == 0 {
            path.t3 = NEVER;
        } else if ack.earliest_acked {
            path.t3 = ctx.now + path.timeout();
        }
        // RFC 9260 §8.2. Nothing changes for a path without errors. Data acknowledged again may have arrived long ago: with several paths, a
        // SACK that another one overtook looks like reneging.
        let has_errors = path.errors > 0 || path.state != PathState::Active;
        if has_errors && self.shows_response(index, ack) {
            self.path_answered(ctx, index);
        }
        self.trace_window(ctx, index);
    }

    /// Counts an acknowledgement of data on a path, and returns its description for the congestion control. A path on which data arrives is no
    /// black hole.
    fn ack_sample(
        &mut self,
        now: Time,
        index: PathId,
        ack: &PathAck,
        advanced: bool,
        from: Option<PathId>,
        echo: &Echo,
    ) -> AckSample {
        let PathAck {
            acked,
            flight_before,
            newest_sent_at,
            packets,
            newest,
            advanced: advanced_here,
            ..
        } = *ack;
        let flight = self.sender.outstanding.flight(index);
        let in_recovery = ack.was_reduced && !self.grows_in_recovery(index);
        let cumulative_advanced = if self.sender.outstanding.is_per_path() {
            advanced_here
        } else {
            advanced
        };
        // Without timestamps, redundant transmission does not always know which transmission has arrived.
        let returned_on = from.filter(|_| self.paths.len() > 1 && !self.is_redundant());
        let path = &mut self.paths[index];
        let (stamps, eci) = if echo.path == Some(index) {
            (echo.stamps, echo.eci)
        } else {
            (None, None)
        };
        path.black_hole = None;
        path.delivered += acked;
        path.quality.losses.on_delivered(packets);
        let flight_before = path.utilized(now, flight_before);
        let min_rtt = path.rtt.min_rtt();
        let rate = match &mut self.sender.rates {
            Some(rates) => rates.on_delivered(now, index, acked, min_rtt),
            None => None,
        };
        // For the parts only: the RTO has its own samples, one per round trip (`on_rtt_sample`). A timestamp identifies the transmission,
        // even of a retransmitted chunk.
        let rtt = newest_sent_at
            .or(stamps.map(|stamps| stamps.sent))
            .map(|sent_at| now.since(sent_at))
            .map(|rtt| returned_on.map_or(rtt, |from| path.comparable(from, rtt)));
        AckSample {
            now,
            acked,
            packets,
            flight_before,
            flight,
            cumulative_advanced,
            all_acked: self.sender.outstanding.all_acked_on(index),
            in_recovery,
            acked_to: self.sender.outstanding.acked_to(index),
            newest,
            next: self.sender.outstanding.next_position(index),
            rtt,
            srtt: path.rtt.srtt(),
            min_rtt: path.unqueued_rtt(),
            delivered: path.delivered,
            rate,
            stamps,
            eci,
        }
    }

    /// Handles a SACK that had no room for all Gap Ack Blocks: the fate of TSNs above the last block is unknown. Of those, a chunk
    /// sent before another one that arrived on the same path has left the network, so it no longer counts as in flight.
    fn take_out_unreported(&mut self, now: Time, report: &SackReport) {
        for (index, path) in self.paths.numbered() {
            let Some((sent_at, _)) = report.of(index).latest else {
                continue;
            };
            // An acknowledgement that arrives too early is for an earlier transmission.
            if path.rtt.min_rtt().is_some_and(|least| now.since(sent_at) >= least) {
                self.sender.outstanding.take_out_unreported(index, sent_at);
            }
        }
    }

    /// Checks earlier timeouts and probes with the report of a SACK.
    fn check_recovery(&mut self, ctx: &mut Context<'_>, sack: &Sack<'_>, echo: &Echo, report: &SackReport) {
        for index in self.paths.ids() {
            if self.paths[index].recovery.is_none() {
                continue;
            }
            if report.of(index).acked > 0 {
                let is_about_it = echo.path == Some(index);
                self.check_timeout(ctx, index, echo.stamps.filter(|_| is_about_it));
            }
            self.check_tail_probe(ctx, index, sack, report.of(index));
        }
    }

    /// RFC 9260 §6.2.1 D iii, §6.3.2 rule R4: data on which the receiver reneged is in flight without a timer. Starts
    /// T3-rtx for it.
    pub(super) fn start_missing_t3(&mut self, now: Time) {
        for (index, path) in self.paths.numbered_mut() {
            if path.t3 == NEVER && self.sender.outstanding.chunks_in_flight(index) > 0 {
                path.t3 = now + path.timeout();
            }
        }
    }

    /// RFC 9260 §6.2.1 D ii
    // [9260:6.2.1-1]
    fn apply_window(&mut self, a_rwnd: u32) {
        let in_flight = u32::try_from(self.sender.outstanding.data_in_flight()).unwrap_or(u32::MAX);
        self.sender.peer_rwnd = a_rwnd.saturating_sub(in_flight);
        self.sender.largest_peer_rwnd = self.sender.largest_peer_rwnd.max(a_rwnd);
        self.sender.probe.answered = true;
        if self.sender.outstanding.nothing_in_flight() {
            self.sender.probe.in_flight = false;
        }
        if self.sender.peer_rwnd > 0 {
            // The window is open: a chunk sent as a probe is normal data, and so are the chunks sent after it.
            self.sender.probe.in_flight = false;
            self.sender.probe.sent = 0;
        }
    }

    // [9260:6.3.1-1, 6.3.1-2]
    pub(super) fn on_rtt_sample(&mut self, ctx: &mut Context<'_>, index: PathId, sample: Span) {
        self.paths[index].rtt.on_sample(sample);
        self.after_rtt_sample(ctx, index, sample);
    }

    /// Takes in a round-trip time that was measured by a HEARTBEAT, which is short.
    pub(super) fn on_heartbeat_rtt(&mut self, ctx: &mut Context<'_>, index: PathId, sample: Span) {
        self.paths[index].rtt.on_short_sample(sample);
        self.after_rtt_sample(ctx, index, sample);
    }

    fn after_rtt_sample(&mut self, ctx: &mut Context<'_>, index: PathId, sample: Span) {
        let path = &mut self.paths[index];
        path.timed = None;
        path.sampled_at = ctx.now;
        // RFC 9260 §8.3: the heartbeat period follows the RTO, also when it decreases.
        path.heartbeat
            .on_rto(ctx.now, self.config.path_hb_interval, path.rtt.rto());
        if let Some(tuning) = &mut self.tuning {
            tuning.on_rtt(sample);
        }
        let busy = self.sender.outstanding.flight(index) > 0;
        path.quality.on_rtt(ctx.now, sample, path.delivered, busy);
        if self.config.recovers {
            self.renew_loss_timeout(index);
        }
        let rtt = &self.paths[index].rtt;
        ctx.trace
            .emit(TraceKinds::RTT, ctx.now, Some(self.id), || TraceEvent::Rtt {
                path: index,
                sample,
                srtt: rtt.srtt().unwrap_or(sample),
                rttvar: rtt.rttvar(),
                rto: rtt.rto(),
            });
    }

    /// Allows Max.Burst packets on each path (RFC 9260 §6.1 D): at each SACK, and at other events that let data go out.
    // [9260:6.1-14, 6.1-15]
    pub(super) fn allow_burst(&mut self) {
        let burst = if self.config.max_burst == 0 {
            u32::MAX
        } else {
            self.config.max_burst
        };
        for path in self.paths.iter_mut() {
            path.burst_left = burst;
        }
    }

    pub(super) fn trace_window(&self, ctx: &mut Context<'_>, index: PathId) {
        ctx.trace.emit(TraceKinds::WINDOWS, ctx.now, Some(self.id), || {
            let control = &self.paths[index].control;
            TraceEvent::Window {
                path: index,
                cwnd: control.cwnd(),
                ssthresh: control.ssthresh(),
                flight: self.sender.outstanding.flight(index),
                peer_rwnd: self.sender.peer_rwnd,
            }
        });
    }

    /// Aborts the association, as a SACK acknowledges a TSN that has not been sent (RFC 9260 §12.4).
    // [9260:12.4-4]
    pub(super) fn on_impossible_sack(&mut self, ctx: &mut Context<'_>) -> Result<(), Discard> {
        self.abort_for_violation(ctx, "a TSN was acknowledged that was never sent");
        Err(Discard::Unexpected)
    }

    /// Aborts the association with the cause Protocol Violation (RFC 9260 §3.3.10.13), as the peer violated the
    /// protocol.
    pub(super) fn abort_for_violation(&mut self, ctx: &mut Context<'_>, what: &'static str) {
        let mut causes = Vec::new();
        whimbrel_wire::Cause::ProtocolViolation(what.as_bytes()).emit(&mut causes);
        self.abort_with(ctx, &causes, CloseReason::ProtocolViolation(what));
    }
}
