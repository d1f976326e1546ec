//! Ctrl-C and SIGTERM.

use tokio::sync::watch;

/// The number of stop signals: the first one ends gracefully, the second one at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<u32>);

impl Interrupt {
    /// Starts to listen, within a tokio runtime.
    pub(crate) fn listen() -> Self {
        let (count, receiver) = watch::channel(0);
        tokio::spawn(async move {
            while stop_asked().await.is_ok() {
                count.send_modify(|count| *count += 1);
            }
        });
        Interrupt(receiver)
    }

    /// Waits until `times` signals have been received.
    pub(crate) async fn asked(&self, times: u32) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|count| *count >= times).await.is_err() {
            // Signals are not available on this system.
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether a signal has been received.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow() > 0
    }
}

#[cfg(unix)]
async fn stop_asked() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn stop_asked() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
