//! Addresses of targets. A lookup takes a thread until it ends, also after its requester has gone.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::forward::Target;

/// Lookups of all clients at a time, and of one; further ones wait.
const LOOKUPS: usize = 64;
const LOOKUPS_OF_A_CLIENT: usize = 8;

/// Looks addresses up, a few at a time.
#[derive(Clone, Debug)]
pub(crate) struct Lookups {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

impl Default for Lookups {
    fn default() -> Self {
        Lookups {
            all: Arc::new(Semaphore::new(LOOKUPS)),
            own: Arc::new(Semaphore::new(LOOKUPS_OF_A_CLIENT)),
        }
    }
}

impl Lookups {
    /// Returns the part of another client.
    pub(crate) fn of_client(&self) -> Self {
        Lookups {
            all: self.all.clone(),
            ..Lookups::default()
        }
    }

    /// Returns the addresses of a target, at least one.
    ///
    /// # Errors
    /// Returns an error if its name is unknown.
    pub(crate) async fn addrs(&self, target: &Target) -> Result<Vec<SocketAddr>> {
        if let Ok(ip) = target.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, target.port)]);
        }
        let (host, port) = (target.host.clone(), target.port);
        let addrs = self.run(move || Ok((host.as_str(), port).to_socket_addrs()?.collect::<Vec<_>>()));
        let addrs = addrs.await?;
        if addrs.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the host has no address"));
        }
        Ok(addrs)
    }

    /// Runs a lookup in a thread. It has its place until it ends, also if the future is dropped.
    async fn run<T: Send + 'static>(&self, lookup: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let own = self.own.clone().acquire_owned().await.map_err(Error::other)?;
        let all = self.all.clone().acquire_owned().await.map_err(Error::other)?;
        let looking = tokio::task::spawn_blocking(move || {
            let _places = (own, all);
            lookup()
        });
        looking.await.unwrap_or_else(|error| Err(Error::other(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Starts this number of lookups that take until the sender is dropped, waits until `wanted` of them run, and drops their futures. Returns
    /// how many run.
    async fn abandon(lookups: &Lookups, count: usize, wanted: usize, end: &Arc<Semaphore>) -> usize {
        let running = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..count)
            .map(|_| {
                let (lookups, running, end) = (lookups.clone(), running.clone(), end.clone());
                tokio::spawn(async move {
                    let lookup = move || {
                        running.fetch_add(1, Ordering::SeqCst);
                        while !end.is_closed() {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        Ok(())
                    };
                    lookups.run(lookup).await
                })
            })
            .collect();
        let enough = async {
            while running.load(Ordering::SeqCst) < wanted {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(LIMIT, enough).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::time::sleep(Duration::from_millis(100)).await;
        running.load(Ordering::SeqCst)
    }

    #[test]
    fn lookups_whose_requester_has_gone_keep_their_places() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (done, ended) = channel();
        let end = Arc::new(Semaphore::new(0));
        let closing = end.clone();
        std::thread::spawn(move || {
            // Threads that run prevent the end of the runtime.
            let _ = ended.recv_timeout(LIMIT);
            closing.close();
        });
        runtime.expect("a runtime").block_on(async {
            let all = Lookups::default();
            let first = all.of_client();
            assert_eq!(
                abandon(&first, 1000, LOOKUPS_OF_A_CLIENT, &end).await,
                LOOKUPS_OF_A_CLIENT
            );
            assert_eq!(abandon(&first, 10, 0, &end).await, 0);
            // Others have theirs, as long as there are any.
            assert_eq!(
                abandon(&all.of_client(), 10, LOOKUPS_OF_A_CLIENT, &end).await,
                LOOKUPS_OF_A_CLIENT
            );
            for _ in 2..LOOKUPS / LOOKUPS_OF_A_CLIENT {
                abandon(&all.of_client(), 10, LOOKUPS_OF_A_CLIENT, &end).await;
            }
            assert_eq!(abandon(&all.of_client(), 10, 0, &end).await, 0);
            done.send(()).expect("a thread");
            // Once they have ended, there is room again.
            let looked = tokio::time::timeout(LIMIT, first.run(|| Ok(7))).await;
            assert_eq!(looked.expect("in time").expect("a number"), 7);
        });
    }
}
