//! Changes of a direction's rate, delay and losses while packets are in transit.
//!
//! Departure and arrival times are computed when packets enter. At a change, those of packets that have not left are computed
//! again: the rest of the packet in transmission is sent at the new rate, the queued packets follow, and each gets the new delay
//! and the new loss models. Packets that have left arrive unchanged.

use whimbrel_control::{Rate, Span, Time};

use super::{Direction, Transit, Window};
use crate::loss::LossModel;
use crate::packet::Slab;

/// New values. `None` means no change.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkChange {
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<Span>,
    /// The new loss models; an empty list means no losses.
    pub(crate) losses: Option<Vec<LossModel>>,
}

impl LinkChange {
    /// Returns whether there is no new value.
    pub(crate) fn is_empty(&self) -> bool {
        self.rate.is_none() && self.delay.is_none() && self.losses.is_none()
    }
}

/// Events affected by a change.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// The next packet to arrive has a new time and needs a new event.
    pub(crate) head: bool,
    /// When the transmitter of a queue that decides as packets leave is free.
    pub(crate) departure: Option<Time>,
    /// Ring indices of packets with their own events whose times have changed.
    pub(crate) loose: Vec<usize>,
}

impl Direction {
    /// Applies a change at the time `now`.
    pub(crate) fn change(&mut self, now: Time, change: &LinkChange, slab: &mut Slab, window: Window) -> Moved {
        let delay_before = self.delay;
        let rate_before = self.rate;
        if !self.changes {
            // From now on an arrival may have to wait for that of an earlier packet.
            self.changes = true;
            self.special = true;
            self.last_arrival = self.ring.back().map_or(now, |transit| transit.arrival);
        }
        if let Some(rate) = change.rate {
            self.rate = rate;
            self.last_time = (0, Span::ZERO);
            if let Some(queue) = self.extras.as_mut().and_then(|extras| extras.queue.as_mut()) {
                queue.set_rate(rate);
            }
        }
        self.delay = change.delay.unwrap_or(self.delay);
        if let Some(losses) = &change.losses {
            self.extras.get_or_insert_default().losses.clone_from(losses);
        }
        let mut moved = Moved::default();
        let Some(first) = self.ring.iter().position(|transit| transit.departure > now) else {
            return moved;
        };
        let mut free = now;
        let mut last_arrival = first
            .checked_sub(1)
            .and_then(|i| self.ring.get(i))
            .map_or(Time::ZERO, |t| t.arrival);
        for place in first..self.ring.len() {
            let before = self.ring[place];
            let mut transit = before;
            if change.rate.is_some() {
                transit = self.timed_again(before, now, free, rate_before);
            }
            // The part of the delay that jitter added is kept.
            let jitter = before.arrival.since(before.departure + delay_before);
            transit.arrival = transit.departure + self.delay + jitter;
            if !self.loose {
                transit.arrival = transit.arrival.max(last_arrival);
            }
            last_arrival = transit.arrival;
            free = transit.departure;
            self.stats.correct(&before, &transit, window);
            self.ring[place] = transit;
            if let (Some(_), Some(extras)) = (&change.losses, &mut self.extras) {
                let packet = slab.get_mut(transit.packet);
                (packet.fate, packet.twice) = (0, false);
                extras.judge(&transit, packet);
            }
            if transit.arrival != before.arrival {
                moved.head |= place == 0;
                if self.loose {
                    moved.loose.push(place);
                }
            }
        }
        self.busy_until = free;
        if !self.loose {
            self.last_arrival = last_arrival;
        }
        let armed = self.scheduler().is_some_and(|scheduler| scheduler.armed);
        moved.departure = armed.then_some(self.busy_until);
        moved
    }

    /// Returns a packet with new times after a rate change at `now`; the transmitter is free for it from `free` on.
    fn timed_again(&mut self, before: Transit, now: Time, free: Time, rate_before: Rate) -> Transit {
        let mut transit = before;
        if before.start > now {
            transit.start = free.max(now);
            transit.departure = transit.start + self.transmission_time(before.size);
        } else {
            let left = u128::from(before.departure.since(now).as_nanos());
            let scaled = left * u128::from(rate_before.as_bps()) / u128::from(self.rate.as_bps().max(1));
            transit.departure = now + Span::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX));
        }
        transit
    }

    /// Returns the packet at an index of the ring.
    pub(crate) fn transit_mut(&mut self, place: usize) -> Option<&mut Transit> {
        self.ring.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Extras;
    use super::super::tests::{ALL, arrives, direction, enter, ms, nothing};
    use super::*;
    use crate::ledger::{DropCause, LossKind};
    use crate::link::Jitter;
    use crate::loss::LossConfig;
    use whimbrel_control::Rng;

    fn change(link: &mut Direction, now: Time, change: &LinkChange) -> Moved {
        let mut slab = Slab::default();
        for _ in 0..100 {
            slab.reserve();
        }
        link.change(now, change, &mut slab, ALL)
    }

    fn rate(mbps: u64) -> LinkChange {
        LinkChange {
            rate: Some(Rate::from_mbps(mbps)),
            ..LinkChange::default()
        }
    }

    fn arrivals(link: &Direction) -> Vec<u64> {
        link.ring.iter().map(|t| t.arrival.as_nanos() / 1000).collect()
    }

    #[test]
    fn queued_packets_are_sent_at_the_new_rate() {
        let mut link = direction(None);
        for seq in 0..4 {
            arrives(&mut link, ms(0), seq);
        }
        // At 1.25 ms one packet has left, and a quarter of the second: the rest takes 3 ms at a quarter of the rate, each other
        // packet 4 ms.
        let moved = change(&mut link, Time::from_nanos(1_250_000), &rate(3));
        assert!(!moved.head && moved.departure.is_none() && moved.loose.is_empty());
        assert_eq!(arrivals(&link), [11_000, 14_250, 18_250, 22_250]);
        assert_eq!(link.waiting(ms(2)).packets, 2);
        assert_eq!(link.waiting(ms(5)).packets, 1);
        assert_eq!(arrives(&mut link, ms(5), 9), ms(26) + Span::from_micros(250));
        // Each packet waits until the previous one has left; the transmitter was never idle.
        assert_eq!(link.stats.waited, 1_000_000 + 4_250_000 + 8_250_000 + 7_250_000);
        assert_eq!(link.stats.busy, 16_250_000);
    }

    #[test]
    fn a_change_and_its_reverse_at_once_change_nothing() {
        let mut link = direction(None);
        for seq in 0..4 {
            arrives(&mut link, ms(0), seq);
        }
        let before = (arrivals(&link), link.stats.busy, link.stats.waited);
        let at = Time::from_nanos(1_500_000);
        change(&mut link, at, &rate(3));
        change(&mut link, at, &rate(12));
        assert_eq!((arrivals(&link), link.stats.busy, link.stats.waited), before);
    }

    #[test]
    fn the_next_arrival_may_move() {
        let mut link = direction(None);
        arrives(&mut link, ms(0), 0);
        arrives(&mut link, ms(0), 1);
        assert!(change(&mut link, Time::from_nanos(500_000), &rate(24)).head);
        assert_eq!(arrivals(&link), [10_750, 11_250]);
    }

    #[test]
    fn a_shorter_delay_reorders_no_packets() {
        let mut link = direction(None);
        for seq in 0..3 {
            arrives(&mut link, ms(0), seq);
        }
        let shorter = LinkChange {
            delay: Some(Span::from_millis(1)),
            ..LinkChange::default()
        };
        // The first left at 1 ms and arrives at 11 ms; the others wait for it.
        change(&mut link, Time::from_nanos(1_500_000), &shorter);
        assert_eq!(arrivals(&link), [11_000, 11_000, 11_000]);
        assert_eq!(arrives(&mut link, ms(5), 3), ms(11));
        assert_eq!(arrives(&mut link, ms(10), 4), ms(12));
    }

    #[test]
    fn loose_packets_are_reported_individually() {
        let mut link = direction(Some(Extras {
            jitter: Some(Jitter::new(
                crate::config::JitterConfig::Uniform {
                    min: Span::ZERO,
                    max: Span::from_millis(5),
                    reorder: true,
                },
                Rng::stream(1, "j"),
            )),
            ..nothing()
        }));
        for seq in 0..3 {
            arrives(&mut link, ms(0), seq);
        }
        let before = arrivals(&link);
        let longer = LinkChange {
            delay: Some(Span::from_millis(30)),
            ..LinkChange::default()
        };
        assert_eq!(change(&mut link, ms(1), &longer).loose, [1, 2]);
        assert_eq!(arrivals(&link), [before[0], before[1] + 20_000, before[2] + 20_000]);
    }

    #[test]
    fn new_loss_models_apply_to_packets_that_have_not_left() {
        let mut link = direction(None);
        let mut slab = Slab::default();
        let ids: Vec<_> = (0..3).map(|_| slab.reserve()).collect();
        for id in &ids {
            slab.get_mut(*id).size = 1500;
            let seq = u64::from(*id);
            link.enter(ms(0), ms(0), seq, *id, slab.get_mut(*id), ALL)
                .expect("room");
        }
        let loses = |rate| LinkChange {
            losses: Some(vec![LossModel::new(
                &LossConfig::Bernoulli { rate },
                Rng::stream(1, "l"),
            )]),
            ..LinkChange::default()
        };
        link.change(Time::from_nanos(1_500_000), &loses(1.0), &mut slab, ALL);
        let lost = DropCause::ChannelLoss(LossKind::Bernoulli).fate();
        let fates = |slab: &Slab| ids.iter().map(|id| slab.get(*id).fate).collect::<Vec<_>>();
        assert_eq!(fates(&slab), [0, lost, lost]);
        link.change(Time::from_nanos(2_500_000), &loses(0.0), &mut slab, ALL);
        assert_eq!(fates(&slab), [0, lost, 0]);
        // Later packets meet the last model.
        assert_eq!(enter(&mut link, ms(9), 7), Ok(super::super::Admission::Behind));
    }
}
