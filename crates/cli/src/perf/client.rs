//! The client of `whimbrel perf`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use whimbrel::{Association, Stack};

use super::exchange::{News, Totals, exchange};
use super::plan::Plan;
use super::protocol::{Frame, Start};
use super::report;
use crate::output::count;
use crate::transfer::connect::{Attempt, Toward, end};
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::interrupt::Interrupt;
use crate::transfer::options::{End, Options};
use crate::transfer::{address, paths};
use crate::tui::Tui;

/// How long the server may take to answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// Intervals that wait to be printed.
const WAITING_NEWS: usize = 256;

/// What is to be measured.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) to: Vec<SocketAddr>,
    pub(crate) forward: bool,
    pub(crate) reverse: bool,
    pub(crate) parallel: usize,
    pub(crate) message_bytes: u32,
    pub(crate) seconds: f64,
    /// Of each association.
    pub(crate) bytes: Option<u64>,
    pub(crate) interval: f64,
    pub(crate) json: bool,
}

/// What came of it: the report as JSON, and the first failure.
pub(crate) struct Measured {
    pub(crate) report: Value,
    pub(crate) outcome: Result<(), Failure>,
}

/// Runs the measurement and prints its intervals unless JSON is asked for.
///
/// # Errors
/// Returns an error if no association could be opened.
pub(crate) async fn measure(
    test: &Test,
    toward: &Toward,
    options: &Options,
    interrupt: &Interrupt,
    console: &Console,
    tui: &Tui,
) -> Result<Measured, Failure> {
    check_length(test.message_bytes, options)?;
    let caller = toward.caller(&test.to, options, console)?;
    let mut associations = Vec::new();
    for _ in 0..test.parallel {
        // Two associations between the same addresses need different ports.
        let stack = caller.stack(1)?;
        let association = caller.connect(&stack, Attempt::First, interrupt).await?;
        associations.push((stack, association));
    }
    let ends: Vec<Value> = associations
        .iter()
        .map(|(_, association)| ends_json(association))
        .collect();
    if !test.json {
        introduce(test, options, &associations, console);
    }
    let (news_in, mut news) = mpsc::channel(WAITING_NEWS);
    let mut tasks = JoinSet::new();
    for (number, (stack, association)) in associations.into_iter().enumerate() {
        let (test, interrupt, console, news) = (test.clone(), interrupt.clone(), console.clone(), news_in.clone());
        let watching = tui.watch(&format!("association {number}"), &association);
        tasks.spawn(async move {
            let report = |item| {
                // Reports are dropped rather than waited for.
                let _ = news.try_send((number, item));
            };
            let (totals, outcome) = one(&association, &test, &interrupt, &console, report).await;
            drop(watching);
            end(
                &stack,
                &association,
                outcome.is_ok(),
                "the measurement is over",
                &interrupt,
            )
            .await;
            (number, totals, outcome)
        });
    }
    drop(news_in);
    let mut printer = Printer::new(test, console);
    let mut ended = BTreeMap::new();
    loop {
        tokio::select! {
            Some((number, item)) = news.recv() => printer.take(number, &item),
            task = tasks.join_next() => match task {
                Some(Ok((number, totals, outcome))) => drop(ended.insert(number, (totals, outcome))),
                Some(Err(error)) => return Err(Failure::file(format!("a measurement broke: {error}"))),
                None => break,
            },
        }
    }
    while let Ok((number, item)) = news.try_recv() {
        printer.take(number, &item);
    }
    if !test.json {
        printer.sums(&ended);
    }
    let report = json!({
        "start": start_json(test, options, &ends),
        "intervals": printer.intervals,
        "end": end_json(&ended),
    });
    let stopped = ended.values().any(|(totals, _)| totals.stopped);
    let failure = ended.into_values().find_map(|(_, outcome)| outcome.err());
    let outcome = match failure {
        Some(failure) => Err(failure),
        None if stopped => Err(Failure::interrupted("interrupted")),
        None => Ok(()),
    };
    Ok(Measured { report, outcome })
}

/// Checks that messages of this length can be sent.
fn check_length(length: u32, options: &Options) -> Result<(), Failure> {
    let room = options.association(End::Connects)?.send_buffer;
    if length > room {
        return Err(Failure::wrong_use(format!(
            "messages of {} (--length) do not fit into a send buffer of {room} bytes (--buffer)",
            count(u64::from(length), "byte")
        )));
    }
    Ok(())
}

/// Measures on one association.
async fn one(
    association: &Association,
    test: &Test,
    interrupt: &Interrupt,
    console: &Console,
    report: impl FnMut(News),
) -> (Totals, Result<(), Failure>) {
    let plan = Plan {
        sends: test.forward,
        receives: test.reverse,
        message_bytes: test.message_bytes,
        time: Duration::from_secs_f64(test.seconds),
        bytes: test.bytes,
        interval: Duration::from_secs_f64(test.interval),
        reports: false,
        patience: None,
    };
    let start = Start::new(&plan);
    let agreed = async {
        association.send(Frame::Start(start).into_message()).await?;
        let answer = association.recv().await?;
        let answer = answer.map(|answer| Frame::parse(answer.ppid, &answer.data));
        match answer {
            Some(Ok(Frame::Ready)) => Ok(()),
            Some(Ok(Frame::Refused(why))) => Err(Failure::file(format!("the server refused: {why}"))),
            _ => Err(Failure::file(
                "the other end is no server for measurements; start `whimbrel perf --server` there",
            )),
        }
    };
    let agreed = tokio::select! {
        agreed = agreed => agreed,
        () = tokio::time::sleep(ANSWER_PATIENCE) => Err(Failure::timed_out(
            "the other end does not answer; is it `whimbrel perf --server`?",
        )),
        () = interrupt.asked(1) => Err(Failure::interrupted("interrupted before the measurement began")),
    };
    if let Err(failure) = agreed {
        return (Totals::default(), Err(failure));
    }
    tokio::select! {
        measured = exchange(association, plan, interrupt.asked(1), report) => measured,
        () = interrupt.asked(2) => (Totals::default(), Err(Failure::interrupted("interrupted"))),
        never = paths::watch(association, console) => match never {},
    }
}

fn addrs(addrs: &[SocketAddr]) -> String {
    let addrs: Vec<_> = addrs.iter().map(address::text).collect();
    addrs.join(", ")
}

fn introduce(test: &Test, options: &Options, associations: &[(Stack, Association)], console: &Console) {
    for (number, (_, association)) in associations.iter().enumerate() {
        let prefix = prefix(test, number);
        console.say(format!(
            "{prefix}connected to {} from {}",
            addrs(&association.peer_addrs()),
            addrs(&association.local_addrs())
        ));
    }
    let length = match test.bytes {
        Some(bytes) => count(bytes, "byte"),
        None => format!("{} s", test.seconds),
    };
    console.say(format!(
        "scheme {}, messages of {}, {length}",
        options.scheme_name(),
        count(u64::from(test.message_bytes), "byte")
    ));
    console.say(report::HEAD);
}

fn prefix(test: &Test, number: usize) -> String {
    if test.parallel > 1 {
        format!("[{number}] ")
    } else {
        String::new()
    }
}

fn ends_json(association: &Association) -> Value {
    let texts = |addrs: Vec<SocketAddr>| addrs.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({ "local": texts(association.local_addrs()), "peer": texts(association.peer_addrs()) })
}

type Ended = BTreeMap<usize, (Totals, Result<(), Failure>)>;

/// What was asked for.
fn start_json(test: &Test, options: &Options, associations: &[Value]) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "scheme": options.scheme_name(),
        "message_bytes": test.message_bytes,
        "seconds": test.bytes.is_none().then_some(test.seconds),
        "bytes": test.bytes,
        "parallel": test.parallel,
        "forward": test.forward,
        "reverse": test.reverse,
        "associations": associations,
    })
}

/// Sums over all associations, and each association.
fn end_json(ended: &Ended) -> Value {
    let each: Vec<_> = ended
        .values()
        .map(|(totals, outcome)| report::totals_json(None, totals, outcome.as_ref().err()))
        .collect();
    json!({ "sum": sums(ended).map(|(name, bytes, seconds)| {
        json!({ "direction": name, "bytes": bytes, "seconds": seconds, "bits_per_second": if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 } })
    }).collect::<Vec<_>>(), "associations": each })
}

/// Direction, bytes and the longest time of all associations.
fn sums(ended: &Ended) -> impl Iterator<Item = (&'static str, u64, f64)> {
    let mut sums: Vec<(&'static str, u64, f64)> = Vec::new();
    let mut add = |name, bytes, seconds| match sums.iter_mut().find(|sum| sum.0 == name) {
        Some(sum) => (sum.1, sum.2) = (sum.1.saturating_add(bytes), f64::max(sum.2, seconds)),
        None => sums.push((name, bytes, seconds)),
    };
    for (totals, _) in ended.values() {
        if let Some(sent) = &totals.sent {
            add("sent", sent.bytes, sent.end);
        }
        if let Some(received) = &totals.peer_received {
            add("peer received", received.bytes, received.seconds);
        }
        if let Some(sent) = &totals.peer_sent {
            add("peer sent", sent.bytes, sent.end);
        }
        if let Some(received) = &totals.received {
            add("received", received.bytes, received.seconds);
        }
    }
    sums.into_iter()
}

/// Prints intervals, and keeps them for JSON.
struct Printer<'a> {
    test: &'a Test,
    console: &'a Console,
    intervals: Vec<Value>,
    /// Of several associations: bytes of the interval with this number, by direction, and how many have reported.
    partial: BTreeMap<(bool, usize), (usize, u64, f64, f64)>,
    /// The number of the next interval of each association, by direction.
    next: BTreeMap<(bool, usize), usize>,
}

impl<'a> Printer<'a> {
    fn new(test: &'a Test, console: &'a Console) -> Self {
        Printer {
            test,
            console,
            intervals: Vec::new(),
            partial: BTreeMap::new(),
            next: BTreeMap::new(),
        }
    }

    fn take(&mut self, number: usize, news: &News) {
        if self.test.json {
            self.intervals.push(report::news_json(number, news));
            return;
        }
        for line in report::lines(&prefix(self.test, number), news) {
            self.console.say(line);
        }
        let (is_sent, start, end, bytes) = match news {
            News::Sent(interval) => (true, interval.start, interval.end, interval.bytes),
            News::Received(start, end, bytes) => (false, *start, *end, *bytes),
            News::PeerSent(_) => return,
        };
        if self.test.parallel == 1 {
            return;
        }
        let next = self.next.entry((is_sent, number)).or_default();
        let sum = self.partial.entry((is_sent, *next)).or_insert((0, 0, start, end));
        let key = (is_sent, *next);
        *next += 1;
        (sum.0, sum.1) = (sum.0 + 1, sum.1.saturating_add(bytes));
        if sum.0 == self.test.parallel {
            let (_, bytes, start, end) = *sum;
            self.partial.remove(&key);
            let what = if is_sent { "sent by all" } else { "received by all" };
            self.console.say(report::line("", start, end, what, bytes, ""));
        }
    }

    /// Prints the sums of all associations.
    fn sums(&self, ended: &Ended) {
        for (number, (totals, _)) in ended {
            for (what, interval) in [("total sent", &totals.sent), ("total peer sent", &totals.peer_sent)] {
                let lines = interval
                    .iter()
                    .flat_map(|interval| report::interval_lines(&prefix(self.test, *number), what, interval));
                lines.for_each(|line| self.console.say(line));
            }
        }
        for (name, bytes, seconds) in sums(ended) {
            if self.test.parallel == 1 && name.ends_with("sent") {
                continue;
            }
            self.console
                .say(report::line("", 0.0, seconds, &format!("total {name}"), bytes, ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::protocol::Received;

    #[test]
    fn sums_of_what_peers_say_do_not_overflow() {
        let received = Received {
            bytes: u64::MAX,
            messages: 1,
            seconds: 1.0,
        };
        let totals = Totals {
            peer_received: Some(received),
            ..Totals::default()
        };
        let ended: Ended = (0..2).map(|number| (number, (totals.clone(), Ok(())))).collect();
        assert_eq!(sums(&ended).collect::<Vec<_>>(), [("peer received", u64::MAX, 1.0)]);
    }
}
