//! Processing of a received SACK (RFC 9260 §6.2.1, §6.3, §7.2).

use whimbrel_control::multipath::SackPath;
use whimbrel_control::{AckSample, CouplingLimits, Span, Time};
use whimbrel_wire::Sack;

use crate::context::Context;
use crate::error::Discard;
use crate::send::Sending;
use crate::send::echo::Echo;
use crate::send::progress::Progress;
use crate::send::ring::{Extent, MissingRules, PathAck, SackOutcome, SackReport};
use crate::send::sack_recorder::SackRecorder;
use crate::trace::{TraceEvent, TraceKinds};
use crate::{PathId, PathState};

/// What has become of an acknowledgement.
pub(crate) enum Taken {
    Applied(Progress),
    /// It acknowledges a TSN that has not been sent.
    Impossible,
}

impl Sending {
    /// Updates the outstanding chunks: removes and marks those acknowledged, counts missing reports and declares chunks lost.
    fn update_outstanding(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        extent: Extent,
        reported: Option<(u32, PathId)>,
        echo: &Echo<'_>,
    ) -> SackOutcome {
        let in_recovery = self.epochs(PathId(0)).recovery.is_active();
        let (limit, early) = if self.config.parts.recovery.early_retransmit {
            (self.missing_limit(), self.retransmits_early())
        } else {
            (self.config.missing_reports, false)
        };
        // An overtaken NEW GAPS adds to the known ranges.
        let overtaken = echo.overtaken && !self.agreed.new_gaps;
        ctx.scratch.lost.clear();
        let mut recorder = SackRecorder {
            paths: &mut self.paths,
            trace: ctx.trace,
            now: ctx.now,
            association: self.id,
            lost: &mut ctx.scratch.lost,
            rates: self.rates.as_deref_mut(),
            arrived_on: reported.map(|(_, from)| from),
            arrival: reported
                .filter(|_| self.config.parts.reporting.sack_path == SackPath::LastArrival)
                .map(|(_, from)| (from, !sack.duplicates.is_empty())),
            echoes: echo.departures,
            overtaken,
        };
        let rules = MissingRules {
            limit,
            in_recovery,
            early,
            arrivals: sack.packets,
            extent,
        };
        self.outstanding.on_sack(sack, rules, &mut recorder)
    }

    /// Applies the acknowledgements of a SACK or a SHUTDOWN: chunks, round-trip times, growth and T3-rtx of each path, end of the recovery, losses,
    /// the peer's window. cwnd grows before losses reduce it. `reported`: a_rwnd and the path of arrival, which a SHUTDOWN does not have.
    ///
    /// What options beyond the standard do is called only if they are in use: each such call has its condition beside it.
    // [9260:7.2.4-6, 8.1-5]
    // [3758:3.5-6, 3.5-7]
    // [7496:3.1-2]
    pub(crate) fn on_acknowledgement(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        extent: Extent,
        reported: Option<(u32, PathId)>,
        echo: &Echo<'_>,
    ) -> Result<Taken, Discard> {
        self.stats.duplicates_reported += sack.duplicates.len() as u64;
        let acked_before = self.outstanding.data_acked();
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
            SackOutcome::Impossible => return Ok(Taken::Impossible),
        };
        self.stats.sacks_received += 1;
        let acknowledged = self.outstanding.data_acked() - acked_before;
        self.stats.data_bytes_acked += acknowledged;
        self.progress.data_acked |= acknowledged > 0;
        // Any chunk newly acknowledged shows that the peer can be reached, even one acknowledged again after it had been reneged.
        // RFC 9260 §8.1
        if newly_acked {
            self.errors = 0;
            self.timeouts_without_ack = 0;
        } else if advanced && self.outstanding.has_limits() {
            // A FORWARD TSN has been answered, which does not show whether data arrives.
            self.errors = 0;
        }
        let mut report = self.outstanding.take_report();
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
        if let Some(rates) = &mut self.rates {
            rates.release(self.outstanding.base());
        }
        self.apply_losses(ctx, &report);
        self.note_lost_copies(&report);
        if self.config.parts.recovery.tail_loss_probe {
            self.renew_tail_probes(ctx.now, &report);
        }
        if reneged {
            self.start_missing_t3(ctx.now);
        }
        match reported.filter(|_| outcome != SackOutcome::OldWithCopies) {
            // RFC 9260 §6.2.1 D ii
            Some((a_rwnd, _)) => self.window.advertise(a_rwnd, self.outstanding.data_in_flight()),
            None => self.window.fill(acknowledged),
        }
        if self.policy.is_some() {
            self.inform_policy_of_sack(ctx, sack, &report);
        }
        self.outstanding.recycle(report);
        if self.outstanding.has_limits() {
            self.watch_forward(ctx.now);
            self.forward(ctx.now);
        }
        self.allow_burst();
        if newly_acked && self.config.parts.recovery.small_window {
            self.recover_small_window(ctx);
        }
        if self.wants_space && self.config.send_buffer_max.is_some() {
            self.tune_send(ctx);
        }
        self.notify_user_of_progress();
        Ok(Taken::Applied(self.take_progress()))
    }

    // [9260:7.2.1-9]
    fn apply_path_acknowledgement(
        &mut self,
        ctx: &mut Context<'_>,
        index: PathId,
        ack: &mut PathAck,
        advanced: bool,
        from: Option<PathId>,
        echo: &Echo<'_>,
    ) {
        if ack.acked > 0 {
            let growth = match self.spread {
                Some(_) => self.coupled_growth(ctx.now, index, ack.acked),
                None => 1.0,
            };
            let sample = self.ack_sample(ctx.now, index, ack, advanced, from, echo);
            let path = &mut self.paths[index];
            ack.filled = sample.flight_before >= path.control.cwnd();
            path.control.on_ack(&sample, CouplingLimits::growth(growth));
            path.limit_to_one_packet(false);
            // Retransmissions count too: a path may carry nothing else.
            path.unanswered.on_data_acked(ack.newest_sent_at.is_some());
            if ack.sent_here_at.is_some() && ack.packets > 0 {
                path.on_chunks_acked(ack.acked / u64::from(ack.packets));
            }
        } else if !ack.again {
            return;
        }
        let path = &mut self.paths[index];
        // RFC 9260 §6.3.2 rules R2 and R3. Chunks that wait for retransmission are not in flight: `note_sent` starts the timer again.
        if self.outstanding.chunks_in_flight(index) == 0 {
            path.stop_t3();
        } else if ack.earliest_acked {
            path.start_t3(ctx.now);
        }
        // RFC 9260 §8.2. Nothing changes for a path without errors. Data acknowledged again may have arrived long ago: with several paths, a
        // SACK that another one overtook looks like reneging.
        let has_errors = path.errors() > 0 || path.state() != PathState::Active;
        if has_errors && self.shows_response(index, ack) {
            self.path_answered(ctx, index);
        }
        if self.note_answer(ctx.now, index, ack) {
            self.withdraw_question(ctx, index);
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
        echo: &Echo<'_>,
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
        let flight = self.outstanding.flight(index);
        let in_recovery = ack.was_reduced && !self.grows_in_recovery(index);
        let cumulative_advanced = if self.outstanding.is_per_path() {
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
        path.on_delivered(acked);
        path.quality.losses.on_delivered(packets);
        let flight_before = path.utilized(now, flight_before);
        let min_rtt = path.rtt.min_rtt();
        let rate = match &mut self.rates {
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
            all_acked: self.outstanding.all_acked_on(index),
            in_recovery,
            acked_to: self.outstanding.acked_to(index),
            newest,
            next: self.outstanding.next_position(index),
            rtt,
            srtt: path.rtt.srtt(),
            min_rtt: path.unqueued_rtt(),
            delivered: path.delivered(),
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
                self.outstanding.take_out_unreported(index, sent_at);
            }
        }
    }

    /// Checks earlier timeouts and probes with the report of a SACK.
    fn check_recovery(&mut self, ctx: &mut Context<'_>, sack: &Sack<'_>, echo: &Echo<'_>, report: &SackReport) {
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
    pub(in crate::send) fn start_missing_t3(&mut self, now: Time) {
        for (index, path) in self.paths.numbered_mut() {
            if !path.t3_runs() && self.outstanding.chunks_in_flight(index) > 0 {
                path.start_t3(now);
            }
        }
    }

    // [9260:6.3.1-1, 6.3.1-2]
    pub(crate) fn on_rtt_sample(&mut self, ctx: &mut Context<'_>, index: PathId, sample: Span) {
        self.paths[index].rtt.on_sample(sample);
        self.after_rtt_sample(ctx, index, sample);
    }

    /// Takes in a round-trip time that was measured by a HEARTBEAT, which is short.
    pub(in crate::send) fn on_heartbeat_rtt(&mut self, ctx: &mut Context<'_>, index: PathId, sample: Span) {
        self.paths[index].rtt.on_short_sample(sample);
        self.after_rtt_sample(ctx, index, sample);
    }

    fn after_rtt_sample(&mut self, ctx: &mut Context<'_>, index: PathId, sample: Span) {
        let path = &mut self.paths[index];
        path.on_sampled(ctx.now);
        // RFC 9260 §8.3: the heartbeat period follows the RTO, also when it decreases.
        path.heartbeat
            .on_rto(ctx.now, self.config.path_hb_interval, path.rtt.rto());
        self.latest_rtt = sample;
        let busy = self.outstanding.flight(index) > 0;
        path.quality.on_rtt(ctx.now, sample, path.delivered(), busy);
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
    pub(in crate::send) fn allow_burst(&mut self) {
        let burst = if self.config.max_burst == 0 {
            u32::MAX
        } else {
            self.config.max_burst
        };
        for path in self.paths.iter_mut() {
            path.allow_burst(burst);
        }
    }

    pub(in crate::send) fn trace_window(&self, ctx: &mut Context<'_>, index: PathId) {
        ctx.trace.emit(TraceKinds::WINDOWS, ctx.now, Some(self.id), || {
            let control = &self.paths[index].control;
            TraceEvent::Window {
                path: index,
                cwnd: control.cwnd(),
                ssthresh: control.ssthresh(),
                flight: self.outstanding.flight(index),
                peer_rwnd: self.peer_rwnd(),
            }
        });
    }

    /// Returns the round-trip time that the timestamp before a SACK measures, if no chunk that was sent once measures
    /// it. The timestamp identifies the transmission, so retransmissions can be measured too (as in RFC 7323 §4 for
    /// TCP). At most one measurement per round trip.
    fn stamped_rtt(&self, now: Time, index: PathId, echo: &Echo<'_>, ack: &PathAck) -> Option<Span> {
        let sent = echo.stamps?.sent;
        let path = &self.paths[index];
        // A SACK is sent on the path of the data that it acknowledges (RFC 9260 §6.4), unless configured otherwise.
        let is_about_it =
            echo.path == Some(index) && self.config.parts.reporting.sack_path == SackPath::LastArrival && ack.acked > 0;
        (is_about_it && path.may_sample(sent)).then(|| now.since(sent))
    }
}
