//! Pacing: packets of data are spaced over time if the window control or the scheme requires it.

use whimbrel_control::{Pacer, Span, Time};

use super::Path;

/// State of pacing and penalties. It is created when a path first needs it.
#[derive(Debug, Default)]
pub(crate) struct Restraint {
    pacer: Pacer,
    /// The driver's timer is coarse: packets are sent in bursts, which the pacer limits instead of Max.Burst.
    bursts: bool,
    /// When cwnd was last full. Only recorded with bursts.
    full_at: Time,
    /// When cwnd was halved because the shared buffers waited for data sent on this path.
    penalised_at: Time,
    /// Until this time the path takes no new data because of a penalty.
    rest_until: Time,
}

impl Path {
    /// Returns whether the pacer allows a packet now.
    #[inline]
    pub(crate) fn pacer_is_open(&self, now: Time) -> bool {
        self.restraint
            .as_ref()
            .is_none_or(|restraint| restraint.pacer.may_send(now))
    }

    /// Returns whether the pacer allows a packet now. If not, records when it will.
    #[inline]
    pub(crate) fn is_its_time(&mut self, now: Time) -> bool {
        match &self.restraint {
            Some(restraint) if !restraint.pacer.may_send(now) => {
                self.release = self.release.min(restraint.pacer.next());
                false
            }
            _ => true,
        }
    }

    /// Returns whether packets of data may need spacing. `even`: the scheme requires pacing.
    #[inline]
    pub(crate) fn is_paced(&self, even: bool) -> bool {
        even || self.control.may_pace()
    }

    /// Returns whether the pacer limits bursts instead of Max.Burst.
    pub(crate) fn sends_bursts(&self) -> bool {
        self.restraint.as_ref().is_some_and(|restraint| restraint.bursts)
    }

    /// A packet of data with `bytes` bytes was sent; `flight` includes it. With `even`, a window control without a
    /// pacing rate spreads one cwnd over a round-trip time, unless the round-trip time is too short for a timer of this
    /// `granularity`.
    pub(crate) fn pace(&mut self, now: Time, bytes: u64, flight: u64, even: bool, granularity: Span) {
        let srtt = self.rtt.srtt();
        let is_long = |srtt: &Span| even && *srtt >= granularity * 4;
        let even_rate = || srtt.filter(is_long).map(|srtt| self.control.even_rate(srtt));
        let rate = self.control.pacing_rate(srtt).or_else(even_rate);
        // A rate of zero would delay the next packet without end.
        let Some(rate) = rate.filter(|rate| rate.as_bps() > 0) else {
            if let Some(restraint) = &mut self.restraint {
                restraint.bursts = false;
            }
            return;
        };
        let restraint = self.restraint.get_or_insert_default();
        restraint.pacer.on_sent(now, bytes, rate, granularity);
        restraint.bursts = !granularity.is_zero();
        if !restraint.bursts {
            return;
        }
        if flight >= self.control.cwnd() {
            restraint.full_at = now;
        }
        if self.burst_left == 0 {
            // Max.Burst ended a burst that the pacer allows. The burst continues with the next one.
            self.release = self.release.min(now + granularity);
        }
    }

    /// Returns when the path was last penalised, and until when it takes no new data.
    pub(crate) fn penalty(&self) -> (Time, Time) {
        let times = |restraint: &Restraint| (restraint.penalised_at, restraint.rest_until);
        self.restraint.as_deref().map_or((Time::ZERO, Time::ZERO), times)
    }

    /// Records a penalty: the path takes no new data until `rest_until`.
    pub(crate) fn set_penalty(&mut self, now: Time, rest_until: Time) {
        let restraint = self.restraint.get_or_insert_default();
        (restraint.penalised_at, restraint.rest_until) = (now, rest_until);
    }

    /// Returns the flight before an acknowledgement, as reported to window controls without a rate of their own. A
    /// pacer that sends bursts leaves a gap between flight and cwnd most of the time. Therefore a cwnd that was full
    /// within the last round-trip time counts as fully utilized.
    pub(crate) fn utilized(&self, now: Time, flight_before: u64) -> u64 {
        let Some(restraint) = self.restraint.as_ref().filter(|restraint| restraint.bursts) else {
            return flight_before;
        };
        let srtt = self.rtt.srtt();
        let was_full = restraint.full_at > Time::ZERO && srtt.is_some_and(|srtt| now.since(restraint.full_at) <= srtt);
        if was_full && self.control.pacing_rate(srtt).is_none() {
            flight_before.max(self.control.cwnd())
        } else {
            flight_before
        }
    }
}
