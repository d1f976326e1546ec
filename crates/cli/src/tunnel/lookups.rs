//! Addresses of targets. A lookup takes a thread until it ends, also after its requester has gone.
//!
//! A client looks up at most [`OF_A_CLIENT`] names at a time. The first of them has a place that other clients cannot take: there are as many
//! such places as there may be associations, in all and from one address. The others share [`SHARED`] places. Lookups of an association
//! that has ended count until they end, so that clients that connect again and again get no further places.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::forward::Target;
use crate::transfer::listen::{MAX_ASSOCIATIONS, MAX_ASSOCIATIONS_PER_ADDRESS};

/// Lookups of all clients at a time beside the first of each.
const SHARED: usize = 64;
/// Lookups of one client at a time; further ones wait.
const OF_A_CLIENT: usize = 8;
/// Threads that lookups may take.
pub(crate) const MAX_THREADS: usize = MAX_ASSOCIATIONS + SHARED;

/// The lookups of all clients.
#[derive(Clone, Debug)]
pub(crate) struct Lookups {
    shared: Arc<Semaphore>,
    first: Arc<Semaphore>,
    /// The first lookups of the clients at each address.
    of_addresses: Arc<Mutex<BTreeMap<IpAddr, Weak<Semaphore>>>>,
}

impl Default for Lookups {
    fn default() -> Self {
        Lookups {
            shared: Arc::new(Semaphore::new(SHARED)),
            first: Arc::new(Semaphore::new(MAX_ASSOCIATIONS)),
            of_addresses: Arc::default(),
        }
    }
}

impl Lookups {
    /// Returns the part of another client, whose verified address is `ip`.
    pub(crate) fn of_client(&self, ip: IpAddr) -> ClientLookups {
        let mut of_addresses = self.of_addresses.lock().unwrap_or_else(PoisonError::into_inner);
        of_addresses.retain(|_, places| places.strong_count() > 0);
        let places = of_addresses.entry(host(ip)).or_default();
        let of_address = places.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Semaphore::new(MAX_ASSOCIATIONS_PER_ADDRESS));
            *places = Arc::downgrade(&new);
            new
        });
        ClientLookups {
            all: self.clone(),
            of_address,
            own: Arc::new(Semaphore::new(OF_A_CLIENT)),
            first: Arc::new(Semaphore::new(1)),
        }
    }
}

/// The network of a host, as the limit of associations counts it: an IPv6 host has 2^64 addresses.
fn host(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        ip => ip,
    }
}

/// The lookups of one client. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ClientLookups {
    all: Lookups,
    of_address: Arc<Semaphore>,
    own: Arc<Semaphore>,
    first: Arc<Semaphore>,
}

/// The permits of a lookup.
type Permits = [Option<OwnedSemaphorePermit>; 4];

async fn acquire(places: &Arc<Semaphore>) -> Result<Option<OwnedSemaphorePermit>> {
    places.clone().acquire_owned().await.map(Some).map_err(Error::other)
}

impl ClientLookups {
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

    /// Waits for a place: the client's own, or one of those that all share.
    async fn place(&self) -> Result<Permits> {
        let own = acquire(&self.own).await?;
        let first = async {
            let first = acquire(&self.first).await?;
            let of_address = acquire(&self.of_address).await?;
            Ok([first, of_address, acquire(&self.all.first).await?])
        };
        tokio::select! {
            biased;
            first = first => first.map(|[first, of_address, all]| [own, first, of_address, all]),
            shared = acquire(&self.all.shared) => Ok([own, shared?, None, None]),
        }
    }

    /// Runs a lookup in a thread. It has its place until it ends, also if the future is dropped.
    async fn run<T: Send + 'static>(&self, lookup: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let place = self.place().await?;
        let looking = tokio::task::spawn_blocking(move || {
            let _place = place;
            lookup()
        });
        looking.await.unwrap_or_else(|error| Err(Error::other(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(60);

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    /// Starts this number of lookups that take until the sender of `end` is dropped, waits until `wanted` of them run, and drops their futures. Returns
    /// how many run.
    async fn abandon(lookups: &ClientLookups, count: usize, wanted: usize, end: &Arc<Mutex<Receiver<()>>>) -> usize {
        let running = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..count)
            .map(|_| {
                let (lookups, running, end) = (lookups.clone(), running.clone(), end.clone());
                tokio::spawn(async move {
                    let lookup = move || {
                        running.fetch_add(1, Ordering::SeqCst);
                        drop(end.lock().map(|end| end.recv()));
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
        run(async {
            let (blocked, end) = channel();
            let end = Arc::new(Mutex::new(end));
            let client = Lookups::default().of_client(address(1));
            assert_eq!(abandon(&client, 1000, OF_A_CLIENT, &end).await, OF_A_CLIENT);
            assert_eq!(abandon(&client, 10, 0, &end).await, 0);
            drop(blocked);
            // Once they have ended, there is room again.
            let looked = tokio::time::timeout(LIMIT, client.run(|| Ok(7))).await;
            assert_eq!(looked.expect("in time").expect("a number"), 7);
        });
    }

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    /// Returns the places that this client gets now.
    async fn take(client: &ClientLookups) -> Vec<Permits> {
        let mut places = Vec::new();
        loop {
            tokio::select! {
                biased;
                // Tokio's budget for a task would end this loop early.
                place = tokio::task::unconstrained(client.place()) => places.push(place.expect("open")),
                () = std::future::ready(()) => return places,
            }
        }
    }

    #[test]
    fn each_client_has_a_place_that_others_cannot_take() {
        run(async {
            let all = Lookups::default();
            let hostile: Vec<_> = (0..MAX_ASSOCIATIONS_PER_ADDRESS - 1)
                .map(|_| all.of_client(address(1)))
                .collect();
            let mut taken = Vec::new();
            for client in &hostile {
                taken.push(take(client).await);
            }
            assert_eq!(taken[0].len(), OF_A_CLIENT);
            let count: usize = taken.iter().map(Vec::len).sum();
            assert_eq!(count, hostile.len() + SHARED);
            // Also behind the same address.
            let client = all.of_client(address(1));
            for _ in 0..3 {
                assert_eq!(take(&client).await.len(), 1);
            }
            drop(taken);
            assert_eq!(take(&client).await.len(), OF_A_CLIENT);
        });
    }

    #[test]
    fn clients_that_connect_again_take_no_places_of_other_addresses() {
        run(async {
            let (all, mut taken) = (Lookups::default(), Vec::new());
            // The addresses of one IPv6 host count as one.
            for n in 0..10 * MAX_ASSOCIATIONS_PER_ADDRESS as u128 {
                let client = all.of_client(Ipv6Addr::from_bits((0xfd << 120) + n).into());
                taken.extend(take(&client).await);
            }
            assert_eq!(taken.len(), MAX_ASSOCIATIONS_PER_ADDRESS + SHARED);
            assert_eq!(take(&all.of_client(address(1))).await.len(), 1);
        });
    }

    #[test]
    fn threads_and_known_addresses_are_bounded() {
        run(async {
            let (all, mut taken) = (Lookups::default(), Vec::new());
            for n in 0..2 * MAX_ASSOCIATIONS as u32 {
                taken.extend(take(&all.of_client(address(n))).await);
            }
            assert_eq!(taken.len(), MAX_THREADS);
            drop(taken);
            assert_eq!(take(&all.of_client(address(1))).await.len(), OF_A_CLIENT);
            assert_eq!(all.of_addresses.lock().expect("no panic").len(), 1);
        });
    }
}
