//! Addresses that come to this host and leave it.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use crate::environment;
use crate::interface;
use crate::netlink::Signal;

/// An address of this host that has come or gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AddressChange {
    /// An interface that is up has it now.
    Added(IpAddr),
    /// No interface that is up has it any more.
    Removed(IpAddr),
}

/// Watches the addresses of this host's interfaces (Linux: netlink). Link-local addresses are left out, and IPv6 addresses as long as their
/// uniqueness is not verified (RFC 4862 §5.4), because they cannot be bound.
///
/// [`Stack::follow_addresses`](crate::Stack::follow_addresses) applies the changes by itself.
///
/// # Examples
///
/// ```no_run
/// # async fn watch(stack: whimbrel::Stack) -> Result<(), Box<dyn std::error::Error>> {
/// use whimbrel::{AddressChange, AddressWatch};
///
/// let mut watch = AddressWatch::new()?;
/// loop {
///     match watch.next().await? {
///         AddressChange::Added(ip) => drop(stack.add_local_address((ip, 0).into())?),
///         AddressChange::Removed(ip) => println!("{ip} is gone"),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct AddressWatch {
    known: Vec<IpAddr>,
    changes: VecDeque<AddressChange>,
    signal: Signal,
    /// Something has changed, and the list has not been read since.
    is_due: bool,
}

/// Time after which the addresses are listed again if that failed.
const RETRY: Duration = Duration::from_millis(100);

impl AddressWatch {
    /// Begins to watch, within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error where the system cannot report changes, on systems other than Linux, and outside a tokio runtime.
    pub fn new() -> io::Result<Self> {
        environment::in_runtime().map_err(io::Error::other)?;
        // The signal first: what changes between the two is then seen twice, and not missed.
        let signal = Signal::of_addresses()?;
        Ok(AddressWatch {
            known: interface::listed()?,
            changes: VecDeque::new(),
            signal,
            is_due: false,
        })
    }

    /// Returns the addresses that there are, according to the changes returned so far.
    pub fn addrs(&self) -> &[IpAddr] {
        &self.known
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// Returns an error if the system stops reporting.
    ///
    /// # Cancel safety
    /// No change is lost if the returned future is dropped before it is ready.
    pub async fn next(&mut self) -> io::Result<AddressChange> {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return Ok(change);
            }
            if !self.is_due {
                self.signal.wait().await?;
                self.is_due = true;
            }
            // Without a list, as when all file descriptors are in use, nothing is known to be gone.
            let Ok(now) = interface::listed() else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            self.is_due = false;
            let gone = self.known.iter().filter(|ip| !now.contains(ip));
            let new = now.iter().filter(|ip| !self.known.contains(ip));
            let gone = gone.copied().map(AddressChange::Removed);
            // New ones first: a stack keeps at least one address.
            self.changes = new.copied().map(AddressChange::Added).chain(gone).collect();
            self.known = now;
        }
    }
}
