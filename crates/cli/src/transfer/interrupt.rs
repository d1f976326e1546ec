//! Requests to stop, for asynchronous commands.

use std::time::Duration;

use tokio::sync::watch;

use super::failure::Failure;
use crate::interrupt::on_request;
use crate::output::INTERRUPTED;

/// Time limit for a command to end after the second request: to notify its peer and to remove partial files.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// How often the user has asked to stop: once ends in good order, twice at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<u32>);

impl Interrupt {
    /// Begins to listen. Once in a process.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let (count, receiver) = watch::channel(0);
        on_request(move |number| {
            count.send_replace(number);
            if number > 1 {
                // The command ends by itself, unless something like a disk that does not answer holds it up.
                std::thread::sleep(LAST_MOMENT);
                crate::tui::restore();
                std::process::exit(i32::from(INTERRUPTED));
            }
        })
        .map_err(Failure::file)?;
        Ok(Interrupt(receiver))
    }

    /// Returns one that is never requested.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Interrupt(watch::channel(0).1)
    }

    /// Waits until `times` signals have been received.
    pub(crate) async fn asked(&self, times: u32) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|count| *count >= times).await.is_err() {
            // The sender lives as long as the process.
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether a signal has been received.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow() > 0
    }
}
