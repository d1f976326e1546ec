//! Whether a path takes another packet of data now: cwnd, Max.Burst, pacing, penalties, and the packet that is sent regardless of them.

use whimbrel_control::{Span, Time};

use super::Path;
use super::pacing::Spacing;
use crate::config::NEVER;

impl Path {
    /// Returns whether cwnd allows another packet while these bytes are in flight (RFC 9260 §6.1 B, §7.2.3).
    #[inline]
    pub(crate) fn window_is_open(&self, flight: u64) -> bool {
        flight < self.control.cwnd() && !(self.one_packet_only && flight > 0)
    }

    /// After a timeout only one packet may be in flight until data is acknowledged (RFC 9260 §7.2.3).
    #[inline]
    pub(crate) fn limit_to_one_packet(&mut self, is_limited: bool) {
        self.one_packet_only = is_limited;
    }

    /// Returns whether Max.Burst allows a packet of new data (RFC 9260 §6.1 D).
    #[inline]
    pub(crate) fn may_burst(&self) -> bool {
        self.burst_left > 0
    }

    /// Allows this number of packets of new data.
    #[inline]
    pub(crate) fn allow_burst(&mut self, packets: u32) {
        self.burst_left = packets;
    }

    #[inline]
    pub(crate) fn on_packet_of_burst(&mut self) {
        self.burst_left -= 1;
    }

    /// The next packet of data lost on this path is sent now, on any path and regardless of cwnd: a fast retransmit
    /// (RFC 9260 §7.2.4 item 3) or the first retransmission after a timeout (RFC 9260 §6.3.3 rule E3).
    pub(crate) fn set_urgent(&mut self) {
        self.urgent = true;
    }

    /// The packet of lost data has been sent.
    #[inline]
    pub(crate) fn clear_urgent(&mut self) {
        self.urgent = false;
    }

    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Data that cwnd allows may be sent at this time.
    pub(crate) fn release_at(&mut self, at: Time) {
        self.release = self.release.min(at);
    }

    /// Returns whether waiting data may be sent now, and ends the wait.
    #[inline]
    pub(crate) fn take_release(&mut self, now: Time) -> bool {
        let is_due = self.release <= now;
        if is_due {
            self.release = NEVER;
        }
        is_due
    }

    /// Returns whether the pacer allows a packet now.
    #[inline]
    pub(crate) fn pacer_is_open(&self, now: Time) -> bool {
        self.restraint.as_ref().is_none_or(|restraint| restraint.may_send(now))
    }

    /// Returns whether the pacer allows a packet now. If not, records when it will.
    #[inline]
    pub(crate) fn is_its_time(&mut self, now: Time) -> bool {
        match &self.restraint {
            Some(restraint) if !restraint.may_send(now) => {
                self.release = self.release.min(restraint.next());
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
    /// pacing rate spreads one cwnd over a round-trip time, in bursts of at most this number of packets, unless the round-trip time is too
    /// short for a timer of this `granularity`.
    pub(crate) fn pace(&mut self, now: Time, bytes: u64, flight: u64, even: Option<u32>, granularity: Span) {
        let srtt = self.rtt.srtt();
        let is_long = |srtt: &Span| even.is_some() && *srtt >= granularity * 4;
        let even_rate = || srtt.filter(is_long).map(|srtt| self.control.even_rate(srtt));
        let own = self.control.pacing_rate(srtt);
        let most = even.filter(|_| own.is_none()).unwrap_or(0);
        let burst = self.control.even_burst().min(most);
        // A rate of zero would delay the next packet without end.
        let Some(rate) = own.or_else(even_rate).filter(|rate| rate.as_bps() > 0) else {
            if let Some(restraint) = &mut self.restraint {
                restraint.bursts = false;
            }
            return;
        };
        let restraint = self.restraint.get_or_insert_default();
        restraint.on_sent(
            now,
            bytes,
            Spacing { rate, burst },
            granularity,
            flight >= self.control.cwnd(),
        );
        if restraint.bursts && self.burst_left == 0 {
            // Max.Burst ended a burst that the pacer allows. The burst continues with the next one.
            self.release = self.release.min(now + granularity);
        }
    }

    /// Returns when the path was last penalised, and until when it takes no new data.
    pub(crate) fn penalty(&self) -> (Time, Time) {
        self.restraint
            .as_deref()
            .map_or((Time::ZERO, Time::ZERO), |restraint| restraint.penalty)
    }

    /// Records a penalty: the path takes no new data until `rest_until`.
    pub(crate) fn set_penalty(&mut self, now: Time, rest_until: Time) {
        self.restraint.get_or_insert_default().penalty = (now, rest_until);
    }

    /// Returns the flight before an acknowledgement, as reported to window controls without a rate of their own. A
    /// pacer that sends bursts leaves a gap between flight and cwnd most of the time. Therefore a cwnd that was full
    /// within the last round-trip time counts as fully utilized.
    pub(crate) fn utilized(&self, now: Time, flight_before: u64) -> u64 {
        let Some(restraint) = self.restraint.as_ref().filter(|restraint| restraint.bursts) else {
            return flight_before;
        };
        let srtt = self.rtt.srtt();
        if restraint.was_full(now, srtt) && self.control.pacing_rate(srtt).is_none() {
            flight_before.max(self.control.cwnd())
        } else {
            flight_before
        }
    }
}
