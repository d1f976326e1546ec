//! How commands connect to the end that listens.

use std::net::SocketAddr;
use std::time::Duration;

use whimbrel::{Association, AssociationConfig, ConnectError, Span, Stack, StackConfig};

use super::address;
use super::console::Console;
use super::failure::Failure;
use super::interrupt::Interrupt;
use super::options::{End, KeyUse, Options};
use super::recording;

/// How long the end of an association may take.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(3);
/// With a key, silence of the other end is explained after this time.
const SILENCE: Duration = Duration::from_secs(2);
/// With a key, time after which the other end is taken to have another one, unless given.
const KEY_PATIENCE: Span = Span::from_secs(10);
/// Whether the other end has accepted an association before: then its silence has other reasons than the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    First,
    Again,
}

/// What is known of the key of this end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    purpose: KeyUse,
    /// Whether the other end has accepted it before. Otherwise it may have another one.
    is_accepted: bool,
}

impl Key {
    fn is_doubtful(self) -> bool {
        self.purpose != KeyUse::None && !self.is_accepted
    }

    /// Why there may be no answer. Without encryption, an end may learn that the other one uses no key only from its silence.
    fn silence(self) -> &'static str {
        match self.purpose {
            KeyUse::Authenticates => "an end with another key, or none, does not answer",
            KeyUse::Encrypts | KeyUse::None => "an end with another key does not answer",
        }
    }
}

/// Options of the end that connects.
#[derive(clap::Args, Debug)]
pub(crate) struct Toward {
    /// Local addresses to send from, each an IP address with or without a UDP port. Default: chosen by the routing table
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = address::parse_local)]
    local: Vec<SocketAddr>,
    /// Maximum time until the association is established. Default: about 31 s, when all INIT retransmissions have failed; with --key 10 s
    /// until the key has been accepted once, because an end with another key does not answer
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    connect_timeout: Option<Span>,
}

impl Toward {
    /// Returns the sockets for associations with a peer, with a number of streams.
    ///
    /// # Errors
    /// Returns an error if a local address cannot be used, if there is no route, or if the recording cannot be written.
    pub(crate) fn stack(
        &self,
        to: &[SocketAddr],
        options: &Options,
        streams: u16,
        console: &Console,
    ) -> Result<Stack, Failure> {
        let config = StackConfig {
            local: options.addrs(&self.local)?,
            transport: options.transport(),
            association: AssociationConfig {
                outbound_streams: streams,
                ..options.association(End::Connects)?
            },
            ..StackConfig::default()
        };
        let stack = Stack::toward(config, &options.addrs(to)?)?;
        if let Some(folder) = &options.record {
            recording::record(folder, &stack, "client", console)?;
        }
        Ok(stack)
    }

    /// Opens an association.
    ///
    /// # Errors
    /// Returns an error if the peer refuses or does not answer in time, or after Ctrl-C.
    pub(crate) async fn connect(
        &self,
        stack: &Stack,
        to: &[SocketAddr],
        options: &Options,
        attempt: Attempt,
        interrupt: &Interrupt,
        console: &Console,
    ) -> Result<Association, Failure> {
        let key = Key {
            purpose: options.key_use(),
            is_accepted: attempt == Attempt::Again,
        };
        let to = options.addrs(to)?;
        tokio::select! {
            connected = stack.connect(&to, options.port) => connected.map_err(|error| explain_key(error, key)),
            never = note_silence(key, console) => match never {},
            failure = self.give_up(key) => Err(failure),
            () = interrupt.asked(1) => Err(Failure::interrupted("interrupted before the connection was made")),
        }
    }

    /// Returns the failure once the other end has been silent for too long.
    async fn give_up(&self, key: Key) -> Failure {
        let is_doubtful = key.is_doubtful();
        let Some(patience) = self.connect_timeout.or(is_doubtful.then_some(KEY_PATIENCE)) else {
            return std::future::pending().await;
        };
        tokio::time::sleep(Duration::from_nanos(patience.as_nanos())).await;
        let cause = if is_doubtful {
            format!(
                "the other end does not accept the key: {} (no association after {patience}; --connect-timeout)",
                key.silence()
            )
        } else {
            format!("the other end does not answer (no association after {patience}; --connect-timeout)")
        };
        Failure::timed_out(cause)
    }
}

/// Ends an association: in good order if that is wanted and does not take long, until a second Ctrl-C; otherwise by an abort with
/// this reason.
pub(crate) async fn end(
    stack: &Stack,
    association: &Association,
    is_in_order: bool,
    reason: &str,
    interrupt: &Interrupt,
) {
    if is_in_order {
        tokio::select! {
            _ = tokio::time::timeout(FAREWELL_PATIENCE, association.shutdown()) => {}
            () = interrupt.asked(2) => {}
        }
    }
    association.abort(reason);
    let _ = tokio::time::timeout(FAREWELL_PATIENCE, stack.wait_idle()).await;
}

/// Says soon why there may be no answer: an end discards what another key has authenticated (RFC 4895 §6.3) or encrypted.
async fn note_silence(key: Key, console: &Console) -> std::convert::Infallible {
    if key.is_doubtful() {
        tokio::time::sleep(SILENCE).await;
        console.note(format!("no answer yet: {}", key.silence()));
    }
    std::future::pending().await
}

/// A failure to connect, with the remedy if one end has no key or another one.
fn explain_key(error: ConnectError, key: Key) -> Failure {
    let text = error.to_string();
    // RFC 4895 §6.1: what the INIT lacks is the parameters of authentication.
    let wants_authentication = text.contains("missing mandatory parameter") || text.contains("requires a shared key");
    let remedy = match key.purpose {
        _ if key.is_doubtful() && matches!(error, ConnectError::TimedOut(_)) => key.silence(),
        KeyUse::Authenticates if text.contains("required authentication") => {
            "the other end uses no key: add --key FILE --auth-only there"
        }
        KeyUse::Authenticates if text.contains("requires encryption") => {
            "the other end encrypts: remove --auth-only here"
        }
        KeyUse::Encrypts if text.contains("required encryption") => {
            "the other end does not encrypt: add --key FILE there, or remove --auth-only there"
        }
        KeyUse::Encrypts if wants_authentication => "the other end has --auth-only: add it here, or remove it there",
        KeyUse::None if text.contains("requires encryption") => {
            "the other end requires encryption: add --key FILE here"
        }
        KeyUse::None if wants_authentication => {
            "the other end requires authentication: add --key FILE --auth-only here"
        }
        _ => return error.into(),
    };
    let failure = Failure::from(error);
    Failure {
        message: format!("{remedy} ({})", failure.message),
        ..failure
    }
}
