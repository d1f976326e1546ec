//! Helpers for the tests of policies.

use super::{ManagePaths, Order, Paths, PolicyEvent};
use crate::multipath::PathView;
use crate::{Span, Time};

/// Returns a usable path with this smoothed round-trip time in milliseconds.
pub(super) fn view(srtt: u64) -> PathView {
    PathView {
        usable: true,
        open: true,
        cwnd: 14_680,
        ssthresh: u64::MAX,
        flight: 0,
        unit: 1468,
        srtt: Some(Span::from_millis(srtt)),
        rttvar: Span::ZERO,
        min_rtt: Some(Span::from_millis(srtt)),
        rto: Span::from_secs(1),
        loss: 0.0,
        errors: 0,
        last_hop: None,
    }
}

/// An association without a network, which executes the policy's decisions as a transport does.
pub(super) struct Bench {
    pub(super) now: Time,
    pub(super) primary: usize,
    pub(super) current: usize,
    pub(super) views: Vec<PathView>,
    pub(super) probes: Vec<Option<u64>>,
    /// Data fills the window of the path that carries it.
    pub(super) filled: bool,
    /// Paths with probes that follow the data.
    pub(super) probed: Vec<usize>,
    pub(super) orders: Vec<(usize, Order)>,
    pub(super) policy: Box<dyn ManagePaths>,
}

impl Bench {
    pub(super) fn new(policy: Box<dyn ManagePaths>, srtts: &[u64]) -> Bench {
        Bench {
            now: Time::from_nanos(1_000_000_000),
            primary: 0,
            current: 0,
            views: srtts.iter().map(|&srtt| view(srtt)).collect(),
            probes: Vec::new(),
            filled: true,
            probed: Vec::new(),
            orders: Vec::new(),
            policy,
        }
    }

    /// Calls the policy with the current paths.
    pub(super) fn ask<R>(&mut self, f: impl FnOnce(&mut dyn ManagePaths, &Paths<'_>) -> R) -> R {
        let paths = Paths {
            now: self.now,
            primary: self.primary,
            current: self.current,
            views: &self.views,
            probes: &self.probes,
        };
        f(&mut *self.policy, &paths)
    }

    /// Passes an event to the policy and executes its decisions.
    pub(super) fn event(&mut self, path: usize, event: PolicyEvent) {
        self.ask(|policy, paths| policy.on_event(paths, path, &event));
        self.follow_now();
    }

    pub(super) fn timeout(&mut self, path: usize, consecutive: u32) {
        self.views[path].errors = consecutive;
        self.event(path, PolicyEvent::Timeout { consecutive });
    }

    pub(super) fn delivered(&mut self, path: usize, packets: u32) {
        self.views[path].errors = 0;
        self.event(
            path,
            PolicyEvent::Delivered {
                packets,
                bytes: u64::from(packets) * 1468,
                filled: self.filled,
            },
        );
    }

    pub(super) fn answered(&mut self, path: usize) {
        self.views[path].errors = 0;
        let rtt = self.views[path].srtt.unwrap_or(Span::ZERO);
        self.event(path, PolicyEvent::Answered { rtt });
    }

    /// Advances the time and calls the policy's timer when it expires.
    pub(super) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while self.policy.next_timer() <= end {
            self.now = self.now.max(self.policy.next_timer());
            self.ask(|policy, paths| policy.on_timer(paths));
            self.follow_now();
        }
        self.now = end;
    }

    pub(super) fn follow_now(&mut self) {
        while let Some(order) = self.policy.next_order() {
            match order {
                (path, Order::Follow { .. }) => self.probed.push(path),
                (path, Order::Rest) => self.probed.retain(|probed| *probed != path),
                _ => {}
            }
            self.orders.push(order);
        }
        let standard = if self.views[self.primary].usable {
            self.primary
        } else {
            self.views.iter().position(|view| view.usable).unwrap_or(self.primary)
        };
        self.current = self.ask(|policy, paths| policy.sending(standard, paths));
        self.primary = self.ask(|policy, paths| policy.primary(paths));
    }
}
