//! Timers: SYN, retransmission (RFC 6298), tail-loss probe.

use whimbrel_control::recovery::BackOff;
use whimbrel_control::{CouplingLimits, LossSignal};
use whimbrel_proto::TimerKind;

use super::super::scoreboard::Lost;
use super::*;

impl TcpSender {
    /// Handles the timers that have expired.
    pub(super) fn check_timers(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        if self.rto_at.is_some_and(|at| at <= now) {
            match self.phase {
                Phase::SynSent => self.repeat_syn(context),
                Phase::Up => self.on_timeout(context),
                _ => self.rto_at = None,
            }
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            if self.phase == Phase::Up {
                self.probe(context);
            }
        }
    }

    fn repeat_syn(&mut self, context: &mut Context<'_>) {
        self.timeouts += 1;
        if self.timeouts > self.config.max_syn_retransmissions {
            self.fail("the peer did not answer the SYN");
            return;
        }
        self.rtt.back_off();
        self.send_syn(context);
    }

    fn fail(&mut self, reason: &'static str) {
        self.phase = Phase::Failed(reason);
        self.rto_at = None;
        self.probe_at = None;
    }

    /// Handles a retransmission timeout: RFC 6298 §5.4 to §5.7, RFC 5681 §3.1.
    fn on_timeout(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        self.stats.timeouts += 1;
        self.timeouts += 1;
        self.trace(context, TraceKinds::STATES, || TraceEvent::Timer {
            timer: TimerKind::T3Rtx,
            path: Some(PathId(0)),
        });
        if self.timeouts > self.config.max_retransmissions {
            self.fail("too many retransmissions in a row");
            return;
        }
        let flight_before = self.pipe();
        let given_up = self.board.give_up_all();
        let first = self.board.first();
        // Segments already declared lost do not count again.
        let lost = Lost {
            first,
            packets: given_up.packets.max(1),
            last: given_up.last.max(first),
            ..given_up
        };
        self.episode += 1;
        let (loss, verdict) = self.judge(context, LossSignal::Timeout, &lost, flight_before, self.episode, None);
        let is_transmission = verdict == Verdict::Transmission;
        // RFC 5681 §3.1: ssthresh is set once for a segment, however often it is retransmitted.
        let already = self.reduced.is_active();
        let until = self.board.next_seq().saturating_sub(1);
        let before = self.control.cwnd();
        if !(is_transmission && self.rules.keep_window_on_transmission_timeout) {
            self.control.react(&loss, verdict, already, CouplingLimits::NONE);
            self.reduced.enter(until);
            self.verdict = Some(verdict);
        }
        let reduces = self.control.cwnd() < before;
        self.note_reaction(context, &loss, verdict, before, reduces, self.episode);
        self.recovering = Recovering::Timeout(until);
        self.guard = Some(until);
        self.by_transmission = is_transmission;
        self.dup_acks = 0;
        self.left = 0;
        self.later = None;
        self.urgent = false;
        let first_of_these = self.timeouts == 1;
        self.undo = (self.rules.cancel_spurious && self.agreed.timestamps && first_of_these).then(|| timestamp(now));
        if self.rules.back_off == BackOff::Limited && is_transmission {
            let stretch = 1.0 + 0.5 * self.rng.unit();
            self.rto_at = Some(now + Span::from_secs_f64(self.timeout().as_secs_f64() * stretch));
        } else {
            self.rtt.back_off();
            self.rto_at = Some(now + self.timeout());
        }
        self.trace_window(context);
    }

    /// Returns the current retransmission timeout. After transmission losses it may have its own minimum, and no back-off (Ye 2004,
    /// 5.3).
    pub(super) fn timeout(&self) -> Span {
        let limited = self.rules.back_off == BackOff::Limited;
        let own_min = Some(self.rules.loss_rto_min).filter(|min| !min.is_zero());
        if !self.by_transmission || !limited && own_min.is_none() {
            return self.rtt.rto();
        }
        let base = self.rtt.computed().unwrap_or(self.config.rto_initial);
        let base = base.clamp(own_min.unwrap_or(self.config.rto_min), self.config.rto_max);
        if limited {
            base
        } else {
            (base * (1 << self.timeouts.min(20))).min(self.config.rto_max)
        }
    }

    /// Sets the timers after everything that may be sent has been sent.
    pub(super) fn set_timers(&mut self, now: Time) {
        if self.board.is_empty() {
            self.rto_at = None;
            self.probe_at = None;
            return;
        }
        let timeout = self.timeout();
        let rto_at = *self.rto_at.get_or_insert(now + timeout);
        self.probe_at = None;
        if self.rules.tail_loss_probe
            && !self.probed
            && self.recovering == Recovering::No
            && self.board.sacked() == 0
            && let Some(srtt) = self.rtt.srtt()
        {
            // RFC 8985 §7.2
            let alone = self.board.next_seq() - self.board.first() == 1;
            let wait = srtt * 2 + if alone { self.config.ack_delay } else { Span::ZERO };
            self.probe_at = Some(self.last_sent + wait).filter(|at| *at < rto_at && *at > now);
        }
    }

    /// Sends a tail-loss probe (RFC 8985 §7.3): a new segment, or a retransmission of the last one.
    fn probe(&mut self, context: &mut Context<'_>) {
        if self.board.is_empty() || self.recovering != Recovering::No {
            return;
        }
        self.probed = true;
        if !self.send_next_new(context) {
            let last = self.board.next_seq() - 1;
            self.retransmit(context, last);
        }
        self.rto_at = Some(context.now + self.timeout());
    }
}
