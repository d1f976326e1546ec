//! How commands connect to the end that listens.

use std::net::SocketAddr;
use std::time::Duration;

use whimbrel::{Association, AssociationConfig, ConnectError, Span, Stack, StackConfig};
use whimbrel_secure::ShortFingerprint;

use super::address;
use super::console::Console;
use super::failure::{Failure, NOT_TRUSTED};
use super::interrupt::Interrupt;
use super::options::{End, Options};
use super::recording;
use super::security::{Protection, Security, question};

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

/// What is known of the secret of this end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Secret {
    protection: Protection,
    /// Whether the other end has accepted it before. Otherwise it may have another one.
    is_accepted: bool,
}

impl Secret {
    /// Returns whether the other end may be silent because it has another secret.
    fn is_doubtful(self) -> bool {
        matches!(
            self.protection,
            Protection::SecretEncrypts | Protection::SecretAuthenticates
        ) && !self.is_accepted
    }

    /// Why there may be no answer. Without encryption, an end may learn that the other one uses no key only from its silence.
    fn silence(self) -> &'static str {
        match self.protection {
            Protection::SecretAuthenticates => "an end with another key, or none, does not answer",
            _ => "an end with another key does not answer",
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

/// One end that connects to another one.
pub(crate) struct Caller<'a> {
    toward: &'a Toward,
    to: Vec<SocketAddr>,
    options: &'a Options,
    security: Security,
    console: &'a Console,
}

impl Toward {
    /// Returns what connects to these addresses of a peer.
    ///
    /// # Errors
    /// Returns an error if an option is wrong, or a file that it names.
    pub(crate) fn caller<'a>(
        &'a self,
        to: &[SocketAddr],
        options: &'a Options,
        console: &'a Console,
    ) -> Result<Caller<'a>, Failure> {
        let caller = Caller {
            toward: self,
            to: options.addrs(to)?,
            options,
            security: options.security.prepare(Some(to))?,
            console,
        };
        caller.association()?;
        caller.security.introduce(console);
        Ok(caller)
    }
}

impl Caller<'_> {
    fn association(&self) -> Result<AssociationConfig, Failure> {
        self.options.protected(End::Connects, &self.security)
    }

    /// Returns the sockets for associations with the peer, with a number of streams.
    ///
    /// # Errors
    /// Returns an error if a local address cannot be used, if there is no route, or if the recording cannot be written.
    pub(crate) fn stack(&self, streams: u16) -> Result<Stack, Failure> {
        let config = StackConfig {
            local: self.options.addrs(&self.toward.local)?,
            transport: self.options.transport(),
            association: AssociationConfig {
                outbound_streams: streams,
                ..self.association()?
            },
            ..StackConfig::default()
        };
        let stack = Stack::toward(config, &self.to)?;
        if let Some(folder) = &self.options.record {
            recording::record(folder, &stack, "client", self.console)?;
        }
        Ok(stack)
    }

    /// Opens an association. Asks the user about a peer that is not known, if there is a terminal.
    ///
    /// # Errors
    /// Returns an error if the peer refuses or does not answer in time, if it is not trusted, or after Ctrl-C.
    pub(crate) async fn connect(
        &self,
        stack: &Stack,
        attempt: Attempt,
        interrupt: &Interrupt,
    ) -> Result<Association, Failure> {
        let secret = Secret {
            protection: self.security.protection,
            is_accepted: attempt == Attempt::Again,
        };
        let interrupted = || Failure::interrupted("interrupted before the connection was made");
        loop {
            // One that was refused when keys were renewed is another matter.
            let _ = self.security.peers.as_ref().and_then(|peers| peers.take_refused());
            let connected = tokio::select! {
                connected = stack.connect(&self.to, self.options.port) => connected,
                never = note_silence(secret, self.console) => match never {},
                failure = self.toward.give_up(secret) => return Err(failure),
                () = interrupt.asked(1) => return Err(interrupted()),
            };
            let error = match connected {
                Ok(association) => return Ok(association),
                Err(error) => error,
            };
            let stranger = self.security.peers.as_ref().and_then(|peers| peers.take_refused());
            match (stranger, &self.security.peers) {
                (Some(stranger), Some(peers))
                    if stranger.is_new && attempt == Attempt::First && question::can_ask(self.console) =>
                {
                    tokio::select! {
                        decided = question::ask(&self.to, peers, &stranger, self.console) => decided?,
                        () = interrupt.asked(1) => return Err(interrupted()),
                    }
                }
                (Some(stranger), _) => return Err(question::refused(&stranger)),
                _ => return Err(explain(error, secret, self.security.own())),
            }
        }
    }
}

impl Toward {
    /// Returns the failure once the other end has been silent for too long.
    async fn give_up(&self, key: Secret) -> Failure {
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
async fn note_silence(key: Secret, console: &Console) -> std::convert::Infallible {
    if key.is_doubtful() {
        tokio::time::sleep(SILENCE).await;
        console.note(format!("no answer yet: {}", key.silence()));
    }
    std::future::pending().await
}

/// A failure to connect, with the remedy if the ends do not protect the association in the same way.
fn explain(error: ConnectError, secret: Secret, own: Option<ShortFingerprint>) -> Failure {
    let text = error.to_string();
    // RFC 4895 §6.1: what the INIT lacks is the parameters of authentication.
    let wants_authentication = text.contains("missing mandatory parameter") || text.contains("requires a shared key");
    let remedy = match secret.protection {
        _ if secret.is_doubtful() && matches!(error, ConnectError::TimedOut(_)) => secret.silence().to_owned(),
        _ if text.contains("no common way to agree on keys") => {
            "one end has --key FILE and the other has an identity: use the same at both ends".to_owned()
        }
        Protection::SecretAuthenticates if text.contains("required authentication") => {
            "the other end uses no key: add --key FILE --auth-only there".to_owned()
        }
        Protection::SecretAuthenticates if text.contains("requires encryption") => {
            "the other end encrypts: remove --auth-only here".to_owned()
        }
        Protection::SecretEncrypts if text.contains("required encryption") => {
            "the other end does not encrypt: add --key FILE there, or remove --auth-only there".to_owned()
        }
        Protection::SecretEncrypts if wants_authentication => {
            "the other end has --auth-only: add it here, or remove it there".to_owned()
        }
        Protection::Identities if text.contains("required encryption") => {
            "the other end does not encrypt: remove --insecure there; add it here only if nothing has to be protected"
                .to_owned()
        }
        Protection::Identities if is_distrust(&text) => {
            let own = own.map_or("FINGERPRINT".to_owned(), |own| own.to_string());
            format!(
                "the other end does not trust this one: add --peer {own} there, or a line with {own} to trusted-clients there; if it has --ca, this one needs a certificate of its authorities"
            )
        }
        Protection::None if text.contains("requires encryption") => {
            "the other end encrypts: remove --insecure here, or add it there".to_owned()
        }
        Protection::None | Protection::Identities if wants_authentication => {
            "the other end requires authentication: add --key FILE --auth-only here".to_owned()
        }
        _ => return error.into(),
    };
    let failure = Failure::from(error);
    let code = if is_distrust(&text) { NOT_TRUSTED } else { failure.code };
    Failure {
        code,
        message: format!("{remedy} ({})", failure.message),
    }
}

/// Returns whether the peer says that it does not trust this end.
fn is_distrust(text: &str) -> bool {
    text.contains("aborted by the peer") && text.contains("not trusted") || text.contains("does not trust this end")
}
