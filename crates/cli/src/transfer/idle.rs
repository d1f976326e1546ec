//! Idle peers. A server ends an association whose peer neither sends a message nor takes one for some time: others may need its place. The
//! clients of this program send a message for that purpose if they have nothing else to send, because HEARTBEATs do not count.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use whimbrel::{Association, Message};

use super::failure::Failure;
use super::options::parse_time;

/// Payload protocol identifier of the message that only shows that a client is in use; private use.
const KEEP_ALIVE: u32 = 0x5748_4b01;
/// Time between two looks whether a client has sent anything: it sends a message at least every 20 s.
const INTERVAL: Duration = Duration::from_secs(10);

/// Options of a server about idle peers.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct IdleOptions {
    /// At the end that listens: time after which an association is aborted if its peer has neither sent nor taken a message. Clients of
    /// this program send one at least every 20 s
    #[arg(long, value_name = "TIME", default_value = "2 min", value_parser = parse, hide_short_help = true)]
    idle_timeout: Duration,
}

fn parse(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_secs(1)..=Duration::from_secs(86_400);
    parse_time(text, allowed, "1 s to 24 h")
}

impl IdleOptions {
    pub(crate) fn patience(self) -> Patience {
        Patience(self.idle_timeout)
    }
}

/// How long a server waits for a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(Duration);

impl Patience {
    /// Waits for the peer.
    ///
    /// # Errors
    /// Returns an error if that takes too long.
    pub(crate) async fn within<T>(self, waiting: impl Future<Output = T>) -> Result<T, Failure> {
        let waited = tokio::time::timeout(self.0, waiting).await;
        waited.map_err(|_| self.failure())
    }

    /// Returns whether a peer has been idle for too long.
    pub(crate) fn is_over(self, since: Instant) -> bool {
        since.elapsed() >= self.0
    }

    /// Returns how often [`is_over`](Self::is_over) is to be asked.
    pub(crate) fn interval(self) -> Duration {
        self.0 / 8
    }

    pub(crate) fn failure(self) -> Failure {
        let seconds = self.0.as_secs_f64();
        Failure::timed_out(format!(
            "it was idle: for {seconds} s the peer has neither sent nor taken a message (--idle-timeout)"
        ))
    }
}

/// Returns whether a message only shows that its sender is in use.
pub(crate) fn is_keep_alive(ppid: u32) -> bool {
    ppid == KEEP_ALIVE
}

/// Sends a message that shows that this end is in use.
pub(crate) fn show_use(association: &Association) {
    let message = Message {
        ppid: KEEP_ALIVE,
        ..Message::new(0, vec![0])
    };
    // If there is no room, other messages wait to be sent. The end of the association is not for this function to report.
    let _ = association.try_send(message);
}

/// Shows that this end is in use whenever it has sent nothing else, for as long as it is polled.
pub(crate) async fn keep_alive(association: &Association) -> Infallible {
    let sent = || association.stats().map(|stats| stats.messages_sent);
    let mut before = sent();
    loop {
        tokio::time::sleep(INTERVAL).await;
        if sent() == before {
            show_use(association);
        }
        before = sent();
    }
}
