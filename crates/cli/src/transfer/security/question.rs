//! The question about a server that is not known yet.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::net::SocketAddr;

use tokio::sync::oneshot;

use super::peers::{Peers, Stranger};
use crate::transfer::address;
use crate::transfer::console::Console;
use crate::transfer::failure::{Failure, NOT_TRUSTED};

/// Answers that are tried before a text counts as a refusal.
const ATTEMPTS: usize = 3;

/// Returns whether there is someone to ask. A live view would hide the question.
pub(crate) fn can_ask(console: &Console) -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !console.has_view()
}

/// The failure if a server is not trusted and nobody is asked.
pub(crate) fn refused(stranger: &Stranger) -> Failure {
    let short = stranger.fingerprint.short();
    let message = if stranger.is_new {
        format!(
            "the other end is not known. Its fingerprint is {short}: compare it with the one that it prints, and add --peer {short}"
        )
    } else {
        format!("the other end is not trusted: {}", stranger.why)
    };
    Failure {
        code: NOT_TRUSTED,
        message,
    }
}

/// Asks whether to trust a server from now on, and remembers that.
///
/// # Errors
/// Returns an error if the answer is no, or if it cannot be remembered.
pub(crate) async fn ask(
    to: &[SocketAddr],
    peers: &Peers,
    stranger: &Stranger,
    console: &Console,
) -> Result<(), Failure> {
    let addrs: Vec<String> = to.iter().map(address::text).collect();
    console.note(format!("the other end, {}, is not known yet", addrs.join(", ")));
    console.note(format!("  its fingerprint is    {}", stranger.fingerprint.short()));
    console.note(format!("  this end's fingerprint {}", peers.own()));
    console.note("compare them with what the other end prints; trust it from now on? yes or no:");
    for _ in 0..ATTEMPTS {
        let answer = answer().await.map(|text| text.trim().to_lowercase());
        match answer.as_deref() {
            Some("yes" | "y") => {
                let list = peers.remember(&stranger.fingerprint)?;
                console.note(format!("remembered in {list}"));
                return Ok(());
            }
            Some("no" | "n") | None => break,
            Some(_) => console.note("type yes or no:"),
        }
    }
    Err(Failure {
        code: NOT_TRUSTED,
        message: "the other end is not trusted".to_owned(),
    })
}

/// Reads a line in a thread of its own, which nobody waits for after Ctrl-C. `None`: there is none.
async fn answer() -> Option<String> {
    let (into, line) = oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let is_read = io::stdin().lock().read_line(&mut text).is_ok_and(|len| len > 0);
        let _ = into.send(is_read.then_some(text));
    });
    line.await.ok().flatten()
}
