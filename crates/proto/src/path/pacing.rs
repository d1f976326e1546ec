//! Packets of data spaced over time, if the window control or the scheme wants that.

use whimbrel_control::{Pacer, Span, Time};

use super::Path;

/// What a path keeps once something besides its window has held packets back.
#[derive(Debug, Default)]
pub(crate) struct Restraint {
    pacer: Pacer,
    /// The driver's timer is coarse: packets go out in bursts, which the pacer limits instead of Max.Burst.
    bursts: bool,
    /// When the window was last full, with bursts.
    full_at: Time,
    /// When its window was halved because the buffers waited for what had been sent on it.
    penalised_at: Time,
    /// Until when it takes no new data for that.
    rest_until: Time,
}

impl Path {
    /// Whether the pacer lets a packet go now.
    #[inline]
    pub(crate) fn pacer_is_open(&self, now: Time) -> bool {
        self.restraint
            .as_ref()
            .is_none_or(|restraint| restraint.pacer.may_send(now))
    }

    /// Whether the pacer lets a packet go now; notes when it will.
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

    /// Whether packets of data may have to be spaced. `even`: as the scheme wants it.
    #[inline]
    pub(crate) fn is_paced(&self, even: bool) -> bool {
        even || self.control.may_pace()
    }

    /// Whether the pacer limits bursts, and not Max.Burst alone.
    pub(crate) fn sends_bursts(&self) -> bool {
        self.restraint.as_ref().is_some_and(|restraint| restraint.bursts)
    }

    /// A packet of data with so many bytes has gone out; `flight` is what is in flight with it. `even`: where the window control has no
    /// rate, a window is spread over a round-trip time, unless that is too short for a timer of this `granularity`.
    pub(crate) fn pace(&mut self, now: Time, bytes: u64, flight: u64, even: bool, granularity: Span) {
        let srtt = self.rtt.srtt();
        let is_long = |srtt: &Span| even && *srtt >= granularity * 4;
        let even_rate = || srtt.filter(is_long).map(|srtt| self.control.even_rate(srtt));
        let rate = self.control.pacing_rate(srtt).or_else(even_rate);
        // A rate of zero would be for ever.
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
            // Max.Burst has stopped a burst that the pacer allows: it goes on with the next one.
            self.release = self.release.min(now + granularity);
        }
    }

    /// When the path was last penalised, and until when it rests for that.
    pub(crate) fn penalty(&self) -> (Time, Time) {
        let times = |restraint: &Restraint| (restraint.penalised_at, restraint.rest_until);
        self.restraint.as_deref().map_or((Time::ZERO, Time::ZERO), times)
    }

    /// The path is penalised, and rests until then.
    pub(crate) fn set_penalty(&mut self, now: Time, rest_until: Time) {
        let restraint = self.restraint.get_or_insert_default();
        (restraint.penalised_at, restraint.rest_until) = (now, rest_until);
    }

    /// The flight before an acknowledgement, as windows without a rate of their own are told. A pacer that collects bursts leaves a gap
    /// between flight and window most of the time; a window that was full within the last round trip counts as fully utilized.
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
