//! Ctrl-C and SIGTERM.

use tokio::sync::watch;

/// How often the user has asked to stop: once ends in good order, twice at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<u32>);

impl Interrupt {
    /// Begins to listen, within a tokio runtime.
    pub(crate) fn listen() -> Self {
        let (count, receiver) = watch::channel(0);
        tokio::spawn(async move {
            while stop_asked().await.is_ok() {
                count.send_modify(|count| *count += 1);
            }
        });
        Interrupt(receiver)
    }

    /// Waits until the user has asked `times` times.
    pub(crate) async fn asked(&self, times: u32) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|count| *count >= times).await.is_err() {
            // Signals cannot be had on this system: nobody will ask.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the user has asked at all.
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
