//! The SCTP service: a thread that owns sockets, options and associations.

mod association;
mod notify;
mod options;
mod pair;
mod port;
mod requests;
mod settings;
mod shared_udp;
mod socket;
mod stray;
mod watched;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{Backlog, UnixAddr, bind, listen};
use tokio::sync::watch;
use whimbrel::transport::Transport;

use crate::control::SECRET;
use crate::service::port::Port;
pub(crate) use crate::service::settings::Settings;
use crate::service::socket::Socket;

/// How long the service waits for the end of the associations when the program ends.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(10);
const FINISH_STEP: Duration = Duration::from_millis(2);

/// A service that does not run yet: the socket on which it will be asked.
#[derive(Debug)]
pub(crate) struct Prepared {
    listener: OwnedFd,
    name: Vec<u8>,
    secret: [u8; SECRET],
    settings: Settings,
}

/// The state of the service.
pub(crate) struct Service {
    name: Vec<u8>,
    /// What each request has to have.
    secret: [u8; SECRET],
    settings: Settings,
    transport: Arc<dyn Transport>,
    sockets: RefCell<BTreeMap<u32, Rc<Socket>>>,
    ports: RefCell<Vec<Weak<Port>>>,
    numbers: Cell<u32>,
    finishing: watch::Sender<bool>,
    /// Associations whose descriptors are closed, and that have not ended.
    closing: Cell<usize>,
}

/// Returns a part of a name that other users cannot take before.
fn random_number() -> Result<u64, Errno> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|_| Errno::EIO)?;
    Ok(u64::from_ne_bytes(random))
}

impl Prepared {
    /// Makes the socket of a service in this process. All users of the host can read its name (/proc/net/unix): requests need a secret too.
    pub(crate) fn new() -> Result<Prepared, Errno> {
        let name = format!("whimbrel/{}.{:016x}", std::process::id(), random_number()?).into_bytes();
        let mut secret = [0; SECRET];
        getrandom::fill(&mut secret).map_err(|_| Errno::EIO)?;
        let listener = nix::sys::socket::socket(
            nix::sys::socket::AddressFamily::Unix,
            nix::sys::socket::SockType::SeqPacket,
            nix::sys::socket::SockFlag::SOCK_CLOEXEC | nix::sys::socket::SockFlag::SOCK_NONBLOCK,
            None,
        )?;
        bind(listener.as_raw_fd(), &UnixAddr::new_abstract(&name)?)?;
        listen(&listener, Backlog::MAXCONN)?;
        Ok(Prepared {
            listener,
            name,
            secret,
            settings: Settings::from_environment(),
        })
    }

    /// Returns the name on which the service can be asked, an abstract address of AF_UNIX.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns what requests need.
    pub(crate) fn secret(&self) -> [u8; SECRET] {
        self.secret
    }

    /// Returns the descriptor that the service needs.
    pub(crate) fn listener(&self) -> i32 {
        self.listener.as_raw_fd()
    }

    /// Runs the service until the process ends.
    pub(crate) fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        let tasks = tokio::task::LocalSet::new();
        let (service, listener) = self.begin();
        tasks.block_on(&runtime, requests::serve(service, listener));
    }

    fn begin(self) -> (Rc<Service>, OwnedFd) {
        let service = Rc::new(Service {
            name: self.name,
            secret: self.secret,
            settings: self.settings,
            transport: self.settings.transport(),
            sockets: RefCell::default(),
            ports: RefCell::default(),
            numbers: Cell::new(0),
            finishing: watch::channel(false).0,
            closing: Cell::new(0),
        });
        (service, self.listener)
    }

    /// A service for a test.
    #[cfg(test)]
    fn for_test() -> Rc<Service> {
        Prepared::new().expect("the kernel has room for a socket").begin().0
    }
}

impl Service {
    /// Returns a number that no socket and no association has had. Linux gives associations numbers from 3 on: 0 to 2 have meanings.
    fn next_number(&self) -> u32 {
        let number = self.numbers.get().max(2).wrapping_add(1) & i32::MAX as u32;
        self.numbers.set(number);
        number
    }

    fn socket(&self, number: u32) -> Option<Rc<Socket>> {
        self.sockets.borrow().get(&number).cloned()
    }

    /// Waits until the program is about to end.
    async fn finishing(&self) {
        // The sender is here, so that it does not end before.
        let _ = self.finishing.subscribe().wait_for(|finishing| *finishing).await;
    }

    /// Ends all sockets in good order, and waits for their associations.
    async fn finish(&self) {
        self.finishing.send_replace(true);
        let ended = async {
            while !self.sockets.borrow().is_empty() || self.closing.get() > 0 {
                tokio::time::sleep(FINISH_STEP).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WAIT, ended).await;
        self.finishing.send_replace(false);
    }
}
