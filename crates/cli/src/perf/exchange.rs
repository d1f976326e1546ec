//! One measurement on one association. Both ends run the same code.

use std::collections::VecDeque;
use std::future::Future;
use std::time::{Duration, Instant};

use whimbrel::{Association, AssociationError, CloseReason, Message, TrySendError};

use super::plan::Plan;
use super::protocol::{Frame, Received};
use super::sample::{Interval, Sampler};
use crate::transfer::failure::Failure;
use crate::transfer::idle::{Patience, is_keep_alive};

/// Messages sent before other work has its turn.
const BURST: usize = 64;
/// How long what was sent may take to arrive, after the end of sending.
const DRAIN: Duration = Duration::from_secs(60);
/// How long the last acknowledgements are awaited, and how often they are looked for: a lost SACK is repeated after a timeout.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);
const SETTLE_STEP: Duration = Duration::from_millis(5);
/// Reports that wait to be sent.
const MAX_OUTBOX: usize = 8;

/// What has happened in an interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    /// This end has sent.
    Sent(Interval),
    /// The peer has sent, as it says.
    PeerSent(Interval),
    /// This end has received: from, to, bytes.
    Received(f64, f64, u64),
}

/// What has happened in all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    /// What this end has sent and the peer has acknowledged.
    pub(crate) sent: Option<Interval>,
    /// What of it the peer has received, as it says.
    pub(crate) peer_received: Option<Received>,
    pub(crate) received: Option<Received>,
    /// What the peer has sent, as it says.
    pub(crate) peer_sent: Option<Interval>,
    /// The measurement was stopped before its end.
    pub(crate) stopped: bool,
}

/// The last acknowledgements may take a slower path than the peer's report that it has received everything.
enum Settling {
    No,
    /// They are awaited until then.
    Until(Instant),
    Done,
}

struct Exchange<'a> {
    association: &'a Association,
    plan: Plan,
    sampler: Sampler,
    outbox: VecDeque<Message>,
    totals: Totals,
    sending: bool,
    receiving: bool,
    settling: Settling,
    submitted: u64,
    first: Option<Instant>,
    /// When the last report of the peer was taken.
    reported: Option<Instant>,
    /// Bytes received at the last tick, and its time.
    ticked: (u64, f64),
    progress: Progress,
}

/// What the peer has taken and sent, and since when it is the same.
struct Progress {
    counts: Option<(u64, u64)>,
    since: Instant,
}

impl Progress {
    /// Checks that the peer is not idle for too long.
    fn check(&mut self, association: &Association, patience: Option<Patience>) -> Result<(), Failure> {
        let stats = association.stats();
        let counts = stats.map(|stats| (stats.data_bytes_acked, stats.bytes_delivered));
        if counts != self.counts {
            (self.counts, self.since) = (counts, Instant::now());
        }
        match patience {
            Some(patience) if patience.is_over(self.since) => Err(patience.failure()),
            _ => Ok(()),
        }
    }
}

/// Runs a measurement. `stop` ends it early; `news` hears of each interval.
pub(crate) async fn exchange(
    association: &Association,
    plan: Plan,
    stop: impl Future<Output = ()>,
    mut news: impl FnMut(News),
) -> (Totals, Result<(), Failure>) {
    let mut exchange = Exchange {
        association,
        plan,
        sampler: Sampler::new(association),
        outbox: VecDeque::new(),
        totals: Totals::default(),
        sending: plan.sends,
        receiving: plan.receives,
        settling: Settling::No,
        submitted: 0,
        first: None,
        reported: None,
        ticked: (0, 0.0),
        progress: Progress {
            counts: None,
            since: Instant::now(),
        },
    };
    if plan.receives {
        exchange.totals.received = Some(Received::default());
    }
    let outcome = exchange.run(stop, &mut news).await;
    exchange.tick(&mut news);
    if plan.sends {
        exchange.totals.sent = Some(exchange.sampler.total(association));
    }
    (exchange.totals, outcome)
}

impl Exchange<'_> {
    async fn run(&mut self, stop: impl Future<Output = ()>, news: &mut impl FnMut(News)) -> Result<(), Failure> {
        let association = self.association;
        let start = tokio::time::Instant::now();
        let mut tick = tokio::time::interval_at(start + self.plan.interval, self.plan.interval);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let patience = self.plan.patience;
        let mut look = tokio::time::interval(patience.map_or(DRAIN, Patience::interval));
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let deadline = start + self.plan.time;
        let mut limit = deadline + DRAIN;
        let mut buffer = Vec::new();
        tokio::pin!(stop);
        while !self.is_done() {
            let next = self.next_message();
            let has_next = next.is_some();
            let next = next.unwrap_or_else(|| Message::zeros(0, 1));
            tokio::select! {
                sent = association.send(next), if has_next => {
                    sent?;
                    self.on_sent()?;
                }
                received = association.recv_into(&mut buffer) => match received {
                    Ok(Some((_, ppid, _))) => self.on_message(ppid, &buffer, news)?,
                    Ok(None) | Err(AssociationError::Closed(CloseReason::Graceful)) => return Err(ended_early()),
                    Err(error) => return Err(error.into()),
                },
                _ = tick.tick() => self.tick(news),
                _ = look.tick() => self.progress.check(association, patience)?,
                () = tokio::time::sleep_until(deadline), if self.sending => self.end_sending(),
                () = tokio::time::sleep(SETTLE_STEP), if matches!(self.settling, Settling::Until(_)) => self.settle(),
                () = &mut stop, if !self.totals.stopped => {
                    self.totals.stopped = true;
                    limit = limit.min(tokio::time::Instant::now() + DRAIN);
                    self.end_sending();
                    if self.receiving {
                        self.outbox.push_back(Frame::Stop.into_message());
                    }
                }
                () = tokio::time::sleep_until(limit) => {
                    return Err(Failure::timed_out("the measurement did not end in time: data sent has not arrived"));
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let is_reported = !self.plan.receives || self.plan.reports || self.totals.peer_sent.is_some();
        let is_received = !self.receiving && is_reported && self.outbox.is_empty();
        !self.sending && (!self.plan.sends || matches!(self.settling, Settling::Done)) && is_received
    }

    fn next_message(&self) -> Option<Message> {
        self.outbox
            .front()
            .cloned()
            .or_else(|| self.sending.then(|| Frame::data(self.plan.message_bytes)))
    }

    /// A message was taken; sends more while there is room.
    fn on_sent(&mut self) -> Result<(), Failure> {
        if self.outbox.pop_front().is_none() {
            self.count_data();
        }
        for _ in 1..BURST {
            if !self.sending || !self.outbox.is_empty() {
                break;
            }
            match self.association.try_send(Frame::data(self.plan.message_bytes)) {
                Ok(()) => self.count_data(),
                Err(TrySendError::Full(_)) => break,
                Err(TrySendError::Failed(error)) => return Err(error.into()),
                Err(_) => return Err(Failure::file("a message was not taken")),
            }
        }
        Ok(())
    }

    /// A message of data was taken; ends after the amount of the plan.
    fn count_data(&mut self) {
        self.submitted += u64::from(self.plan.message_bytes);
        if self.plan.bytes.is_some_and(|bytes| self.submitted >= bytes) {
            self.end_sending();
        }
    }

    fn end_sending(&mut self) {
        if self.sending {
            self.sending = false;
            self.outbox.push_back(Frame::End.into_message());
        }
    }

    fn on_message(&mut self, ppid: u32, data: &[u8], news: &mut impl FnMut(News)) -> Result<(), Failure> {
        if is_keep_alive(ppid) {
            return Ok(());
        }
        let frame = Frame::parse(ppid, data).map_err(|what| Failure::file(format!("the other end sent {what}")))?;
        match frame {
            Frame::Data if self.receiving => self.on_data(data.len()),
            Frame::End if self.receiving => {
                self.receiving = false;
                let received = self.totals.received.unwrap_or_default();
                self.outbox.push_back(Frame::Received(received).into_message());
            }
            Frame::Received(received) if self.plan.sends && !self.sending && self.totals.peer_received.is_none() => {
                self.totals.peer_received = Some(received);
                self.settling = Settling::Until(Instant::now() + SETTLE_LIMIT);
                self.settle();
            }
            Frame::Stop if self.plan.reports => {
                self.totals.stopped = true;
                self.end_sending();
            }
            Frame::Report(report) if self.plan.receives && !self.plan.reports => {
                // A peer cannot fill the memory with reports.
                let is_due = self.reported.is_none_or(|at| at.elapsed() >= self.plan.interval / 2);
                if is_due {
                    self.reported = Some(Instant::now());
                    news(News::PeerSent(*report));
                }
            }
            Frame::Summary(summary) if self.plan.receives && !self.plan.reports && !self.receiving => {
                self.totals.peer_sent = Some(*summary);
            }
            Frame::Refused(why) => return Err(Failure::file(format!("the other end refused: {why}"))),
            _ => return Err(Failure::file("the other end sent what does not belong here")),
        }
        Ok(())
    }

    /// The peer has received everything: ends once it has also acknowledged it.
    fn settle(&mut self) {
        let Settling::Until(limit) = self.settling else { return };
        if Instant::now() < limit
            && self
                .sampler
                .acked(self.association)
                .is_some_and(|acked| acked < self.submitted)
        {
            return;
        }
        self.settling = Settling::Done;
        if self.plan.reports {
            let summary = Box::new(self.sampler.total(self.association));
            self.outbox.push_back(Frame::Summary(summary).into_message());
        }
    }

    fn on_data(&mut self, len: usize) {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        let received = self.totals.received.get_or_insert_default();
        received.bytes += len as u64;
        received.messages += 1;
        received.seconds = (now - first).as_secs_f64();
    }

    /// Reports an interval, the last of which may be shorter.
    fn tick(&mut self, news: &mut impl FnMut(News)) {
        if self.plan.sends {
            let interval = self.sampler.take(self.association);
            if self.plan.reports && self.outbox.len() < MAX_OUTBOX {
                self.outbox
                    .push_back(Frame::Report(Box::new(interval.clone())).into_message());
            }
            news(News::Sent(interval));
        }
        if let Some(received) = &self.totals.received {
            let now = self.sampler.elapsed().as_secs_f64();
            let (bytes, since) = std::mem::replace(&mut self.ticked, (received.bytes, now));
            if received.bytes > bytes || self.receiving {
                news(News::Received(since, now, received.bytes - bytes));
            }
        }
    }
}

fn ended_early() -> Failure {
    Failure {
        code: 6,
        message: "the other end ended the association early".to_owned(),
    }
}
