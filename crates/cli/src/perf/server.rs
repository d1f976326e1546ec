//! The server of `whimbrel perf` and `whimbrel echo`.

use std::time::Duration;

use serde_json::json;
use whimbrel::{Association, Message, ReceivedMessage};

use super::exchange::{Totals, exchange};
use super::plan::Plan;
use super::protocol::{Frame, MAX_MESSAGE, Start};
use super::report;
use crate::output::count;
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::idle::{Patience, is_keep_alive};
use crate::transfer::interrupt::Interrupt;
use crate::transfer::listen::{EVICT_AFTER, Serving, last_word};
use crate::transfer::progress::summary;
use crate::transfer::{listen, paths};
use crate::tui::Tui;

/// How the servers listen.
pub(crate) const SERVING: Serving<'static> = Serving {
    streams: 1,
    max_message: MAX_MESSAGE,
    evict_after: EVICT_AFTER,
    risk: "make this host send data to them",
};
/// How long a measurement may take beyond its time.
const OVERTIME: Duration = Duration::from_secs(90);

/// What every session needs.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) console: Console,
    pub(crate) interrupt: Interrupt,
    /// The longest measurement, in seconds.
    pub(crate) max_time: f64,
    pub(crate) json: bool,
    /// Whether messages of other protocols are returned.
    pub(crate) echoes: bool,
    pub(crate) patience: Patience,
    pub(crate) tui: Tui,
}

impl Server {
    /// Serves one association. Nothing if the peer has asked for nothing.
    pub(crate) async fn attend(self, association: Association) -> Option<Result<(), Failure>> {
        let peer = paths::peer(&association);
        let first = tokio::select! {
            first = self.next(&association) => first,
            () = self.interrupt.asked(1) => {
                association.abort("the server was interrupted");
                return None;
            }
        };
        let message = match first {
            Ok(message) => message?,
            Err(failure) => {
                self.give_up(&association, &peer, &failure);
                return None;
            }
        };
        if !Frame::is_known(message.ppid) && self.echoes {
            let (messages, bytes) = self.echo(&association, message, &peer).await;
            if self.json {
                self.console
                    .say(json!({ "peer": peer, "messages": messages, "bytes": bytes }).to_string());
            } else {
                self.console.say(format!(
                    "{peer}: returned {}, {}",
                    count(messages, "message"),
                    count(bytes, "byte")
                ));
            }
            return Some(Ok(()));
        }
        let start = match self.parse(&message) {
            Ok(start) => start,
            // It is no client.
            Err(failure) => {
                self.refuse(&association, &peer, &failure).await;
                return None;
            }
        };
        let outcome = self.measure(&association, &start, &peer).await;
        if let Err(failure) = &outcome {
            self.refuse(&association, &peer, failure).await;
        }
        Some(outcome)
    }

    /// Waits for the next message. `None` at the end of the association.
    ///
    /// # Errors
    /// Returns an error if the peer is idle for too long.
    async fn next(&self, association: &Association) -> Result<Option<ReceivedMessage>, Failure> {
        loop {
            match self.patience.within(association.recv()).await? {
                Ok(Some(message)) if is_keep_alive(message.ppid) => {}
                received => return Ok(received.unwrap_or(None)),
            }
        }
    }

    /// Aborts an association whose peer is idle.
    fn give_up(&self, association: &Association, peer: &str, failure: &Failure) {
        self.console.note(format!("{peer}: {}", failure.message));
        association.abort(&failure.message);
    }

    /// Reports a failure here and to the client.
    async fn refuse(&self, association: &Association, peer: &str, failure: &Failure) {
        self.console
            .note(format!("error: measurement with {peer}: {}", failure.message));
        let refusal = Frame::Refused(failure.message.clone()).into_message();
        last_word(association, refusal, "the measurement is over").await;
    }

    /// Returns what a client asks for.
    fn parse(&self, first: &ReceivedMessage) -> Result<Start, Failure> {
        let failed = |what: &str| Failure::file(format!("the client sent {what}"));
        let Frame::Start(start) = Frame::parse(first.ppid, &first.data).map_err(failed)? else {
            return Err(failed("something else than the start of a measurement"));
        };
        let checked = start.check(self.max_time);
        checked.map_err(|why| Failure::file(format!("the client asks for {why}")))?;
        Ok(start)
    }

    async fn measure(&self, association: &Association, start: &Start, peer: &str) -> Result<(), Failure> {
        association.send(Frame::Ready.into_message()).await?;
        let plan = Plan {
            sends: start.reverse,
            receives: start.forward,
            message_bytes: start.message_bytes,
            time: Duration::from_secs_f64(start.seconds.min(self.max_time)),
            bytes: start.bytes,
            interval: Duration::from_secs_f64(start.interval),
            reports: true,
            patience: Some(self.patience),
        };
        let _watching = self.tui.watch(&format!("with {peer}"), association);
        let measured = exchange(association, plan, self.interrupt.asked(1), |_| {});
        let limit = plan.time + OVERTIME;
        let Ok((totals, outcome)) = tokio::time::timeout(limit, measured).await else {
            association.abort("the measurement takes too long");
            return Err(Failure::timed_out("it takes too long"));
        };
        self.say(peer, &totals, outcome.as_ref().err());
        outcome?;
        listen::farewell(association, "the measurement is over").await;
        Ok(())
    }

    fn say(&self, peer: &str, totals: &Totals, failure: Option<&Failure>) {
        if self.json {
            self.console
                .say(report::totals_json(Some(peer), totals, failure).to_string());
            return;
        }
        if let Some(received) = totals.received {
            let time = Duration::from_secs_f64(received.seconds);
            self.console
                .say(format!("{peer}: received {}", summary(received.bytes, time)));
        }
        if let Some(sent) = &totals.sent {
            let time = Duration::from_secs_f64(sent.end);
            self.console.say(format!("{peer}: sent {}", summary(sent.bytes, time)));
        }
    }

    /// Returns messages until the peer ends the association. Returns how many, and their bytes.
    async fn echo(&self, association: &Association, first: ReceivedMessage, peer: &str) -> (u64, u64) {
        let (mut messages, mut bytes) = (0, 0);
        let mut next = first;
        let all = async {
            loop {
                let len = next.data.len() as u64;
                let answer = Message {
                    ppid: next.ppid,
                    unordered: next.unordered,
                    ..Message::new(0, std::mem::take(&mut next.data))
                };
                // While the peer does not read, nothing more is read from it.
                if self.patience.within(association.send(answer)).await?.is_err() {
                    break;
                }
                messages += 1;
                bytes += len;
                match self.next(association).await? {
                    Some(message) => next = message,
                    None => break,
                }
            }
            Ok(())
        };
        tokio::select! {
            outcome = all => if let Err(failure) = outcome {
                self.give_up(association, peer, &failure);
            },
            () = self.interrupt.asked(1) => association.abort("the server was interrupted"),
        }
        (messages, bytes)
    }
}
