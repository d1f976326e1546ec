//! The search for the path MTU with probes: Datagram Packetization Layer Path MTU Discovery (RFC 8899 §5).

use whimbrel_control::{Span, Time};

use crate::config::NEVER;

/// MAX_PROBES: probes of one size that are lost in a row before packets of that size are taken not to arrive (§5.1.2).
const MAX_PROBES: u8 = 3;
/// PMTU_RAISE_TIMER: the time after which a longer packet is tried again (§5.1.1).
const RAISE: Span = Span::from_secs(600);
/// The least of PROBE_TIMER (§5.1.1). It is the path's RTO otherwise: acknowledgements are timely.
const LEAST_TIMEOUT: Span = Span::from_secs(1);
/// MTUs of links and tunnels, in bytes. The search finds the largest of them that fits: an exact result is not worth the probes (§5.3.2).
const SIZES: [u16; 28] = [
    576, 1006, 1200, 1280, 1320, 1360, 1380, 1400, 1412, 1420, 1432, 1440, 1450, 1454, 1460, 1472, 1480, 1492, 1500,
    2048, 2304, 4352, 4470, 8192, 9000, 9216, 16384, 32768,
];

/// The probe that the search needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    /// None: the search is complete, or the path does not respond.
    None,
    /// A packet of this size is to be sent.
    Due(u16),
    /// A packet of this size has been sent.
    Sent(u16),
}

/// What has become of the path MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::send) enum Found {
    Nothing,
    /// Not even the base arrives: a short HEARTBEAT has to show whether anything does.
    Doubt,
    /// Packets of this size arrive. It is a new path MTU.
    Mtu(u16),
}

/// The search on one path. All sizes are those of packets with their IP header, in bytes.
#[derive(Debug)]
pub(crate) struct MtuSearch {
    /// MAX_PLPMTU: the largest size that may be tried.
    most: u16,
    /// The size that is tried first: nearly every path has it.
    usual: u16,
    /// The MTU of the interface, once the host has refused to send a probe; 0: unknown.
    device: u16,
    /// The least path MTU that is used if not even [`BASE_MTU`](super::BASE_MTU) arrives.
    least: u16,
    /// Longer packets are not tried for now: they were lost, or a router has reported it.
    limit: u16,
    /// A size that is likely to be the path MTU: the largest one, or what a router has reported.
    hint: Option<u16>,
    /// Packets of a size were lost since the search began.
    has_lost: bool,
    /// Packets of the present path MTU are known to arrive.
    is_confirmed: bool,
    probe: Probe,
    /// PROBE_COUNT: probes of this size that were lost in a row.
    lost: u8,
    /// Nonce of the HEARTBEATs in probes of this size: a late answer to an earlier one counts.
    nonce: u64,
    /// PROBE_TIMER or PMTU_RAISE_TIMER.
    timer: Time,
    /// A report causes no probe before this time, so that many reports do not cause many.
    report_after: Time,
    /// When the next report may cause a probe.
    next_report: Time,
    /// The path responds: sizes may be tried.
    is_running: bool,
    /// A short packet has arrived since packets of another size were lost.
    has_life: bool,
    /// Acknowledged data has shown that packets of this size arrive, since the path MTU was last probed itself; 0: none has.
    shown: u16,
    /// When the last search was complete.
    completed: Option<Time>,
}

impl MtuSearch {
    /// Returns the search of a new path, which begins once the path responds. `least`: the smallest path MTU of its version of IP.
    pub(super) fn new(usual: u16, most: u16, least: u16) -> Self {
        MtuSearch {
            most,
            usual,
            device: 0,
            least,
            limit: most,
            hint: Some(most),
            has_lost: false,
            is_confirmed: false,
            probe: Probe::None,
            lost: 0,
            nonce: 0,
            timer: NEVER,
            report_after: Time::ZERO,
            next_report: Time::ZERO,
            is_running: false,
            has_life: false,
            shown: 0,
            completed: None,
        }
    }

    /// Returns when a timer expires.
    // [8899:5.1.1-3, 6.2.1.3-1, 6.2.3.3-1]
    pub(super) fn timer(&self) -> Time {
        match self.probe {
            // One that waits after a report; any other one is sent at once.
            Probe::Due(_) if self.report_after != Time::ZERO => self.report_after,
            _ => self.timer,
        }
    }

    /// Returns the size of the probe that is to be sent now.
    pub(super) fn due(&self, now: Time) -> Option<u16> {
        match self.probe {
            Probe::Due(size) if self.report_after <= now => Some(size),
            Probe::Due(_) | Probe::None | Probe::Sent(_) => None,
        }
    }

    /// The path responds. If a search of less than ten minutes ago was complete, its result holds.
    pub(super) fn resume(&mut self, now: Time, mtu: u16) {
        if self.is_running {
            return;
        }
        self.is_running = true;
        if self.completed.is_some_and(|at| at + RAISE > now) {
            self.complete(mtu);
        } else {
            self.begin(now, mtu);
        }
    }

    /// Searches from the present path MTU upward (§5.2).
    fn begin(&mut self, now: Time, mtu: u16) {
        self.limit = self.most;
        self.hint = Some(self.most);
        self.has_lost = false;
        self.proceed(now, mtu);
    }

    /// The path does not respond any more: DISABLED.
    pub(super) fn suspend(&mut self) {
        self.is_running = false;
        self.probe = Probe::None;
        self.lost = 0;
        self.timer = NEVER;
    }

    /// Returns the nonce for the probe that is due. `random`: a new one.
    pub(super) fn nonce(&mut self, random: u64) -> u64 {
        if self.lost == 0 {
            self.nonce = random;
        }
        self.nonce
    }

    /// The probe that is due has been sent, in a packet of its size. PROBE_TIMER doubles, as the round-trip time of a path without data is not
    /// known.
    // [8899:3-12, 5.1.1-1]
    pub(super) fn on_sent(&mut self, now: Time, rto: Span) {
        if let Probe::Due(size) = self.probe {
            self.probe = Probe::Sent(size);
            self.timer = now + rto.max(LEAST_TIMEOUT) * (1 << self.lost);
            self.report_after = Time::ZERO;
        }
    }

    /// Returns whether a HEARTBEAT ACK with this nonce answers a probe.
    // [8899:3-23, 3-24, 4.1-2]
    pub(super) fn is_answer(&self, nonce: u64) -> bool {
        let is_out = matches!(self.probe, Probe::Sent(_)) || self.lost > 0;
        is_out && self.nonce == nonce
    }

    /// A short packet has arrived: the base, if it was lost, is tried again.
    pub(super) fn on_life(&mut self, now: Time, mtu: u16) {
        let was_doubted = self.is_running && !self.is_confirmed && self.has_lost && self.probe == Probe::None;
        self.has_life = true;
        if was_doubted {
            self.proceed(now, mtu);
        }
    }

    /// The probe has arrived.
    pub(super) fn on_answer(&mut self, now: Time, mtu: u16) -> Found {
        let (Probe::Sent(size) | Probe::Due(size)) = self.probe else {
            return Found::Nothing;
        };
        self.is_confirmed = true;
        let larger = size.max(mtu);
        self.proceed(now, larger);
        if larger > mtu {
            Found::Mtu(larger)
        } else {
            Found::Nothing
        }
    }

    /// A timer has expired, if it is due. `mtu`: the present path MTU. After a RAISE without data, which was
    /// sent last at `last_data`, longer packets would be of no use.
    // [8899:3-7, 3-25]
    pub(super) fn on_timer(&mut self, now: Time, mtu: u16, last_data: Time) -> Found {
        if self.report_after <= now {
            // It may be long until a probe can be sent: it needs no timer for that.
            self.report_after = Time::ZERO;
        }
        if self.timer > now {
            return Found::Nothing;
        }
        self.timer = NEVER;
        match self.probe {
            Probe::Due(_) => {}
            Probe::None if !self.is_running => {}
            Probe::None if last_data + RAISE <= now => self.timer = now + RAISE,
            Probe::None => self.begin(now, mtu),
            Probe::Sent(size) => {
                self.lost += 1;
                if self.lost < MAX_PROBES {
                    self.probe = Probe::Due(size);
                } else {
                    return self.on_lost(now, size, mtu);
                }
            }
        }
        Found::Nothing
    }

    /// Returns whether it is being probed if packets of the present path MTU arrive.
    #[inline]
    pub(super) fn doubts(&self, mtu: u16) -> bool {
        matches!(self.probe, Probe::Due(size) | Probe::Sent(size) if size <= mtu)
    }

    /// Data in packets of this size has been acknowledged. Data is no probe, but what arrives is known to arrive: a peer may discard packets
    /// with PAD, as pion and sctp-proto do, so that no probe is ever answered.
    pub(super) fn on_data(&mut self, size: u16) {
        self.shown = self.shown.max(size);
    }

    /// All probes of a size were lost.
    fn on_lost(&mut self, now: Time, size: u16, mtu: u16) -> Found {
        self.has_lost = true;
        let (has_life, least) = (self.has_life || self.shown > 0, self.least.max(self.shown.min(mtu)));
        if size <= mtu && !has_life {
            // Perhaps nothing arrives. The next sign of life goes on, or else a later search.
            (self.probe, self.lost, self.timer) = (Probe::None, 0, now + RAISE);
            return Found::Doubt;
        }
        if size <= mtu {
            // ERROR: not even the base arrives (§5.2). With IPv6 each path has to carry it.
            self.limit = (size - 1).max(least);
            self.hint = None;
            self.is_confirmed = true;
            self.proceed(now, least);
            return if least < mtu { Found::Mtu(least) } else { Found::Nothing };
        }
        self.has_life = false;
        self.limit = size - 1;
        self.hint = self.hint.filter(|&hint| hint < size);
        self.proceed(now, mtu);
        Found::Nothing
    }

    /// The host has not sent the probe: its interface carries packets of `mtu` bytes.
    // [8899:3-8]
    pub(super) fn on_refused(&mut self, now: Time, device: u16, mtu: u16) {
        self.device = device;
        self.next_report = Time::ZERO;
        self.on_report(now, device, mtu);
    }

    /// Returns the MTU of the interface, if it is known.
    pub(super) fn device(&self) -> Option<u16> {
        Some(self.device).filter(|device| *device > 0)
    }

    /// A router has reported that packets of more than `reported` bytes do not pass (§4.6.2). `mtu`: the present path MTU, which has been lowered
    /// to [`BASE_MTU`](super::BASE_MTU) if the report is smaller.
    // [8899:3-11]
    pub(super) fn on_report(&mut self, now: Time, reported: u16, mtu: u16) {
        let tried = match self.probe {
            Probe::Due(size) | Probe::Sent(size) => size,
            Probe::None => self.limit,
        };
        if !self.is_running || reported >= tried {
            // Nothing longer has been sent.
            return;
        }
        self.limit = reported.max(mtu);
        self.hint = Some(self.limit);
        let waits_until = self.report_after;
        self.proceed(now, mtu);
        if self.probe != Probe::None {
            self.report_after = if waits_until == Time::ZERO {
                self.next_report.max(now)
            } else {
                waits_until
            };
            self.next_report = self.report_after + LEAST_TIMEOUT;
        }
    }

    /// Long packets do not arrive any more: the path MTU is [`BASE_MTU`](super::BASE_MTU), and the search begins again below the size that was lost (§4.3).
    pub(super) fn on_black_hole(&mut self, now: Time, lost: u16, mtu: u16) {
        self.limit = lost.saturating_sub(1).max(mtu);
        self.hint = None;
        // Short packets have arrived, or nothing would be known.
        (self.has_lost, self.is_confirmed, self.has_life) = (true, false, true);
        self.proceed(now, mtu);
    }

    /// Selects the next size, or ends the search.
    // [9260:7.3-1]
    fn proceed(&mut self, now: Time, mtu: u16) {
        self.lost = 0;
        self.timer = NEVER;
        self.report_after = Time::ZERO;
        self.probe = match self.next_size(mtu) {
            Some(size) => Probe::Due(size),
            None => Probe::None,
        };
        if self.doubts(mtu) {
            self.shown = 0;
        }
        self.completed = Some(now).filter(|_| self.probe == Probe::None);
        if self.completed.is_some() {
            self.complete(mtu);
        }
    }

    /// There is nothing to probe, or not for now.
    fn complete(&mut self, mtu: u16) {
        let raise = self.completed.map(|at| at + RAISE);
        self.timer = raise.filter(|_| mtu < self.most).unwrap_or(NEVER);
    }

    // [8899:5.2-1, 5.3.2-1]
    fn next_size(&self, mtu: u16) -> Option<u16> {
        let is_larger = |&size: &u16| size > mtu && size <= self.limit;
        if self.has_lost && !self.is_confirmed {
            // Perhaps nothing arrives: BASE (§5.2).
            return Some(mtu);
        }
        let likely = Some(self.usual).filter(is_larger).or(self.hint.filter(is_larger));
        likely.or_else(|| {
            let mut sizes = SIZES.into_iter().filter(is_larger);
            let count = sizes.clone().count();
            sizes.nth(count / 2)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::path::BASE_MTU;

    /// A path on which packets of at most `passes` bytes arrive.
    struct Model {
        search: MtuSearch,
        now: Time,
        mtu: u16,
        passes: u16,
        /// The sizes of all probes.
        sent: Vec<u16>,
    }

    impl Model {
        fn new(most: u16, passes: u16) -> Self {
            let mut search = MtuSearch::new(1500, most, 576);
            search.resume(Time::ZERO, BASE_MTU);
            Model {
                search,
                now: Time::ZERO,
                mtu: BASE_MTU,
                passes,
                sent: Vec::new(),
            }
        }

        fn take(&mut self, found: Found) {
            match found {
                Found::Nothing => {}
                Found::Mtu(mtu) => self.mtu = mtu,
                Found::Doubt => self.search.on_life(self.now, self.mtu),
            }
        }

        /// Sends the probe that is due. It is answered after 50 ms, or lost.
        fn step(&mut self) -> bool {
            self.now = self.now.max(self.search.report_after);
            if let Some(size) = self.search.due(self.now) {
                let nonce = self.search.nonce(self.sent.len() as u64);
                self.sent.push(size);
                self.search.on_sent(self.now, Span::from_millis(200));
                if size <= self.passes {
                    self.now += Span::from_millis(50);
                    assert!(self.search.is_answer(nonce) && !self.search.is_answer(nonce + 1));
                    let found = self.search.on_answer(self.now, self.mtu);
                    self.take(found);
                } else {
                    self.now = self.search.timer();
                    let found = self.search.on_timer(self.now, self.mtu, self.now);
                    self.take(found);
                }
            }
            matches!(self.search.probe, Probe::Due(_))
        }

        fn run(&mut self) -> &[u16] {
            let before = self.sent.len();
            while self.step() {
                assert!(self.sent.len() < before + 60, "{:?}", self.sent);
            }
            &self.sent[before..]
        }
    }

    #[test]
    fn acknowledged_data_keeps_the_path_mtu_of_a_peer_that_answers_no_probe() {
        for (shown, kept) in [
            (BASE_MTU, BASE_MTU),
            (1500, BASE_MTU),
            (1000, 1000),
            (300, 576),
            (0, 576),
        ] {
            let mut path = Model::new(9000, 0);
            let before = path.search.shown;
            while path.step() {
                if path.search.doubts(path.mtu) && path.search.lost > 0 {
                    path.search.on_data(shown);
                }
                assert!(path.sent.len() < 60, "{:?}", path.sent);
            }
            assert_eq!((before, path.mtu), (0, kept), "data of {shown} bytes: {:?}", path.sent);
            assert_eq!(path.search.probe, Probe::None, "the search ends");
        }
    }

    #[test]
    fn the_usual_and_the_largest_size_are_found_by_a_probe_each() {
        let mut path = Model::new(1500, 1500);
        assert_eq!(path.run(), [1500]);
        assert_eq!((path.mtu, path.search.timer()), (1500, NEVER));
        let mut path = Model::new(9000, 9000);
        assert_eq!(path.run(), [1500, 9000]);
        assert_eq!(path.mtu, 9000);
        assert!(Model::new(1280, 1500).run().is_empty());
    }

    #[test]
    fn every_common_mtu_is_found_and_no_other_is_exceeded() {
        for passes in (576..=9500).chain([16384, 32768, 65535]) {
            let mut path = Model::new(65535, passes);
            path.run();
            let best = SIZES.into_iter().chain([65535]).filter(|&size| size <= passes).max();
            assert_eq!(Some(path.mtu), best, "{passes}");
            let lost = path.sent.iter().filter(|&&size| size > passes).count();
            assert!(lost <= 15, "{passes}: {:?}", path.sent);
            assert!(path.now < Time::ZERO + Span::from_secs(36));
            // §5.1.1
            assert_eq!(path.search.timer() == NEVER, passes == 65535);
        }
    }

    // §5.2, §5.4
    #[test]
    fn a_path_that_does_not_carry_the_base_gets_a_smaller_mtu() {
        let mut path = Model::new(1500, 1100);
        assert_eq!(
            path.run(),
            [[1500; 3], [1280; 3], [1280; 3], [1200; 3]]
                .concat()
                .into_iter()
                .chain([1006])
                .collect::<Vec<_>>()
        );
        assert_eq!(path.mtu, 1006);
        // It does after a change of the route.
        path.passes = 1500;
        path.now = path.search.timer();
        let found = path.search.on_timer(path.now, path.mtu, path.now);
        assert_eq!(found, Found::Nothing);
        assert_eq!(path.run(), [1500]);
        assert_eq!(path.mtu, 1500);
    }

    // [8899:3-7]
    #[test]
    fn single_losses_do_not_end_the_search() {
        let mut path = Model::new(1500, 1400);
        path.step();
        path.step();
        path.passes = 1500;
        path.run();
        assert_eq!((path.mtu, &path.sent[..]), (1500, &[1500, 1500, 1500][..]));
    }

    // §4.6.2
    // [8899:3-11]
    #[test]
    fn a_report_is_the_next_size_but_not_the_path_mtu() {
        let mut path = Model::new(9000, 1400);
        assert_eq!(path.search.due(path.now), Some(1500));
        let nonce = path.search.nonce(7);
        path.search.on_sent(path.now, Span::from_millis(200));
        path.search.on_report(path.now, 1500, path.mtu);
        assert!(path.search.is_answer(nonce), "it says nothing about this probe");
        path.search.on_report(path.now, 1400, path.mtu);
        assert!(!path.search.is_answer(nonce));
        assert_eq!(path.mtu, BASE_MTU);
        assert_eq!(path.run(), [1400]);
        assert_eq!(path.mtu, 1400);
        // A later change of the route: the path MTU has been lowered to the base.
        (path.mtu, path.passes) = (BASE_MTU, 1360);
        path.search.on_report(path.now, 1360, path.mtu);
        assert_eq!(path.run(), [1360]);
    }

    // §4.3
    #[test]
    fn after_a_black_hole_the_base_is_confirmed_and_less_than_before_is_tried() {
        let mut path = Model::new(1500, 1500);
        path.run();
        (path.mtu, path.passes) = (BASE_MTU, 1420);
        path.search.on_black_hole(path.now, 1500, path.mtu);
        assert!(path.step());
        assert_eq!(path.sent[1..], [1280]);
        path.run();
        assert_eq!(path.mtu, 1420);
        assert!(!path.sent[1..].contains(&1500));
    }

    // §5.1.1
    #[test]
    fn longer_packets_are_tried_again_while_data_is_sent() {
        let mut path = Model::new(1500, 1400);
        path.run();
        let end = path.now;
        for _ in 0..3 {
            let due = path.search.timer();
            assert_eq!(due, path.now + RAISE);
            path.now = due;
            assert_eq!(path.search.on_timer(path.now, path.mtu, end), Found::Nothing);
            assert_eq!(path.search.due(path.now), None);
        }
        assert_eq!(path.now.since(end), Span::from_secs(1800));
        path.now = path.search.timer();
        path.passes = 1500;
        path.search.on_timer(path.now, path.mtu, path.now);
        assert_eq!(path.run(), [1500]);
    }

    // [8899:4.1-2, 5.1.1-1]
    #[test]
    fn a_path_that_does_not_respond_is_not_probed() {
        let mut path = Model::new(1500, 1500);
        assert_eq!(path.search.nonce(1), 1);
        path.search.on_sent(path.now, Span::from_millis(200));
        // §5.1.1
        assert_eq!(path.search.timer(), path.now + Span::from_secs(1));
        path.search.suspend();
        assert_eq!((path.search.timer(), path.search.due(path.now)), (NEVER, None));
        assert!(!path.search.is_answer(1));
        path.search.resume(path.now, path.mtu);
        assert_eq!(path.run(), [1500]);
    }

    #[test]
    fn an_answer_that_comes_after_the_next_probe_counts() {
        let mut path = Model::new(1500, 0);
        path.step();
        path.step();
        assert_eq!(path.sent, [1500, 1500]);
        assert!(path.search.is_answer(path.search.nonce));
        let found = path.search.on_answer(path.now, path.mtu);
        assert_eq!(found, Found::Mtu(1500));
    }

    #[test]
    fn a_path_on_which_nothing_arrives_keeps_the_base() {
        let mut path = Model::new(1500, 0);
        for _ in 0..6 {
            assert_eq!(path.mtu, BASE_MTU);
            let size = path.search.due(path.now).unwrap();
            path.search.nonce(1);
            path.search.on_sent(path.now, Span::from_millis(200));
            path.now = path.search.timer();
            let found = path.search.on_timer(path.now, path.mtu, path.now);
            let is_last = size == BASE_MTU && path.search.due(path.now).is_none();
            assert_eq!(found, if is_last { Found::Doubt } else { Found::Nothing });
        }
        assert_eq!(
            (path.search.due(path.now), path.search.timer()),
            (None, path.now + RAISE)
        );
        path.passes = 1500;
        path.search.on_life(path.now, path.mtu);
        path.run();
        assert!(path.mtu >= 1480, "{}", path.mtu);
    }

    #[test]
    fn reports_cause_a_probe_each_second_at_most() {
        let mut path = Model::new(9000, 9000);
        path.run();
        let mut count = 0;
        for reported in (1281..1500).rev() {
            path.now += Span::from_millis(30);
            path.mtu = BASE_MTU;
            path.search.on_report(path.now, reported, path.mtu);
            if path.search.due(path.now).is_some() {
                path.search.nonce(1);
                path.search.on_sent(path.now, Span::from_millis(200));
                count += 1;
            }
        }
        assert!((5..=8).contains(&count), "{count}");
        path.search.suspend();
        path.search.on_report(path.now, 1281, path.mtu);
        assert_eq!((path.search.due(path.now), path.search.timer()), (None, NEVER));
    }
}
