//! How commands listen for associations of peers.

use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};
use whimbrel::{Association, AssociationConfig, Discard, Listener, Message, Span, Stack, StackConfig};

use super::address;
use super::console::Console;
use super::failure::Failure;
use super::interrupt::Interrupt;
use super::options::{End, Options};
use super::recording;
use super::security::{Protection, Security};
use crate::output;

/// How long a peer may take to end the association.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(10);
/// Time for the packets that end associations after a second Ctrl-C.
pub(crate) const LAST_PACKETS: Duration = Duration::from_millis(100);
/// How long a peer may take for its first message.
const FIRST_MESSAGE: Span = Span::from_secs(10);
/// Associations at a time, in all and from one address.
pub(crate) const MAX_ASSOCIATIONS: usize = 1024;
pub(crate) const MAX_ASSOCIATIONS_PER_ADDRESS: usize = 64;
/// Time between two looks at packets that were refused.
const STRANGERS_INTERVAL: Duration = Duration::from_millis(200);
/// Least time between two reports of them.
const REPORTS_INTERVAL: Duration = Duration::from_secs(10);
/// Least time between two reports of clients.
const CLIENTS_INTERVAL: Duration = Duration::from_secs(1);

/// What a command serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serving<'a> {
    pub(crate) streams: u16,
    /// The longest message of a peer.
    pub(crate) max_message: u32,
    /// Time without a message after which an association may be aborted for a new one, at a limit on their number.
    pub(crate) evict_after: Span,
    /// What anyone can do who is let in.
    pub(crate) risk: &'a str,
}

/// [`Serving::evict_after`] of commands whose peers are not idle, or can try again.
pub(crate) const EVICT_AFTER: Span = Span::from_secs(5);

/// What listens, and whom it lets in.
pub(crate) struct Listening {
    pub(crate) listener: Listener,
    security: Security,
}

/// Reads the files that the options name.
///
/// # Errors
/// Returns an error if an option is wrong, or a file.
pub(crate) fn prepare(options: &Options, console: &Console) -> Result<Security, Failure> {
    let security = options.security.prepare(None)?;
    options.protected(End::Listens, &security)?;
    security.introduce(console);
    Ok(security)
}

/// Listens on these addresses and says where, and for whom.
///
/// # Errors
/// Returns an error if an option is wrong or an address cannot be bound.
pub(crate) fn bind(
    listen: &[SocketAddr],
    options: &Options,
    security: Security,
    serving: Serving<'_>,
    console: &Console,
) -> Result<Listening, Failure> {
    let Serving {
        streams,
        max_message,
        evict_after,
        risk,
    } = serving;
    let config = StackConfig {
        local: options.addrs(listen)?,
        transport: options.transport(),
        port: options.port,
        association: AssociationConfig {
            max_message: Some(max_message),
            outbound_streams: streams,
            ..options.protected(End::Listens, &security)?
        },
        max_associations: MAX_ASSOCIATIONS,
        max_associations_per_address: MAX_ASSOCIATIONS_PER_ADDRESS,
        first_message_timeout: Some(FIRST_MESSAGE),
        evict_after: Some(evict_after),
        ..StackConfig::default()
    };
    let listener = Listener::bind(config)?;
    let stack = listener.stack();
    if let Some(folder) = &options.record {
        recording::record(folder, stack, "server", console)?;
    }
    let addrs: Vec<String> = stack.local_addrs().iter().map(address::text).collect();
    let below = if options.transport().is_some() { "raw IP" } else { "UDP" };
    let own = security.own().map(|own| format!(", fingerprint {own}"));
    console.note(format!(
        "listening on {below} {}, SCTP port {}{}",
        addrs.join(", "),
        stack.port(),
        own.unwrap_or_default()
    ));
    let is_local = stack.local_addrs().iter().all(|addr| addr.ip().is_loopback());
    if let Some(why) = security.lets_in_strangers().filter(|_| !is_local) {
        console.note(format!(
            "warning: anyone who can reach these addresses can {risk}, because of {why}"
        ));
    }
    Ok(Listening { listener, security })
}

/// Packets and associations that were refused because their sender has another key or none, and clients that are not trusted.
#[derive(Default)]
struct Unauthenticated {
    packets: u64,
    associations: u64,
    reported: Option<Instant>,
    client_reported: Option<Instant>,
}

impl Unauthenticated {
    /// Reports the last client that was not trusted.
    fn report_client(&mut self, stack: &Stack, security: &Security, console: &Console) {
        let Some(peers) = &security.peers else {
            return;
        };
        if self.client_reported.is_some_and(|at| at.elapsed() < CLIENTS_INTERVAL) {
            return;
        }
        let Some(stranger) = peers.take_refused() else {
            return;
        };
        self.client_reported = Some(Instant::now());
        // They are the ones that `report` would count.
        self.associations = stack.unproven();
        let short = stranger.fingerprint.short();
        let remedy = match peers.list_of_clients() {
            Some(list) => format!("--peer {short}, or a line with it in {list}"),
            None => format!("--peer {short}"),
        };
        console.note(format!(
            "warning: refused a client: {}; if that is what a client of yours prints, {remedy} lets it in",
            stranger.why
        ));
    }

    fn report(&mut self, stack: &Stack, security: &Security, console: &Console) {
        let discarded = stack.discarded();
        // With identities, acknowledgements of the exchange of keys may arrive in plaintext after its end.
        let counts_plain = security.protection != Protection::Identities;
        let is_of_key =
            |reason: Discard| counts_plain && matches!(reason, Discard::Unauthenticated | Discard::Unprotected);
        let refused = discarded.iter().filter(|(reason, _)| is_of_key(*reason));
        let packets: u64 = refused.map(|(_, count)| *count).sum();
        let associations = stack.unproven();
        let new = [
            (packets - self.packets, "packet"),
            (associations - self.associations, "association"),
        ];
        if new.iter().all(|(count, _)| *count == 0) || self.reported.is_some_and(|at| at.elapsed() < REPORTS_INTERVAL) {
            return;
        }
        let new = new.iter().filter(|(count, _)| *count > 0);
        let refused: Vec<String> = new.map(|(count, what)| output::count(*count, what)).collect();
        let whose = match security.protection {
            Protection::Identities => "that has not shown a trusted identity, or does not trust this end",
            _ => "that has another key, or none",
        };
        console.note(format!(
            "warning: refused {} of a sender {whose}",
            refused.join(" and ")
        ));
        (self.packets, self.associations) = (packets, associations);
        self.reported = Some(Instant::now());
    }
}

/// Until when a command listens, unless Ctrl-C comes before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    Interrupt,
    /// An association that counts has ended.
    Ended,
}

/// Serves every association in a task of its own until Ctrl-C or until `until`. Then those that there are have time to end;
/// a second Ctrl-C aborts them. Returns what came of the first one that counts.
///
/// # Errors
/// Returns an error if the stack fails.
pub(crate) async fn serve<F>(
    listening: Listening,
    until: Until,
    interrupt: &Interrupt,
    console: &Console,
    attend: impl Fn(Association) -> F,
) -> Result<Option<Result<(), Failure>>, Failure>
where
    F: Future<Output = Option<Result<(), Failure>>> + Send + 'static,
{
    let Listening { listener, security } = listening;
    let stack = listener.stack().clone();
    let mut tasks = JoinSet::new();
    let mut unauthenticated = Unauthenticated::default();
    let mut strangers = tokio::time::interval(STRANGERS_INTERVAL);
    let mut outcome = None;
    loop {
        tokio::select! {
            accepted = listener.accept() => drop(tasks.spawn(attend(accepted?))),
            Some(ended) = tasks.join_next() => {
                outcome = outcome.or(outcome_of(ended));
                if until == Until::Ended && outcome.is_some() {
                    break;
                }
            }
            _ = strangers.tick() => {
                unauthenticated.report_client(&stack, &security, console);
                unauthenticated.report(&stack, &security, console);
            }
            () = interrupt.asked(1) => break,
        }
    }
    drop(listener);
    let rest = async {
        while let Some(ended) = tasks.join_next().await {
            outcome = outcome.take().or(outcome_of(ended));
        }
        stack.wait_idle().await;
    };
    tokio::select! {
        () = rest => {}
        () = interrupt.asked(2) => {
            // Associations that are dropped are aborted.
            tasks.shutdown().await;
            let _ = tokio::time::timeout(LAST_PACKETS, stack.wait_idle()).await;
        }
    }
    Ok(outcome)
}

type Ended = Result<Option<Result<(), Failure>>, JoinError>;

/// What came of an association; nothing if it does not count.
fn outcome_of(ended: Ended) -> Option<Result<(), Failure>> {
    ended.unwrap_or_else(|error| Some(Err(Failure::file(format!("a task broke: {error}")))))
}

/// Sends the last message and does what [`farewell`] does.
pub(crate) async fn last_word(association: &Association, message: Message, reason: &str) {
    match tokio::time::timeout(FAREWELL_PATIENCE, association.send(message)).await {
        Ok(Ok(())) => farewell(association, reason).await,
        Ok(Err(_)) => {}
        Err(_) => association.abort(reason),
    }
}

/// Waits until the peer, whose turn it is, has ended the association; what it still sends is dropped. An abort with this reason if that takes
/// too long.
pub(crate) async fn farewell(association: &Association, reason: &str) {
    let mut scrap = Vec::new();
    let ended = async { while let Ok(Some(_)) = association.recv_into(&mut scrap).await {} };
    if tokio::time::timeout(FAREWELL_PATIENCE, ended).await.is_err() {
        association.abort(reason);
    }
}
