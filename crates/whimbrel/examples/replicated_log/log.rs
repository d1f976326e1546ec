//! The application: nothing in this file knows about the simulation. Over UDP it runs as it is.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use whimbrel::{Association, AssociationConfig, Listener, Message, Scheme, Span, Stack, StackConfig};

use super::Failure;

const PORT: u16 = 4711;
const ENTRIES: usize = 100;
/// How long a disk takes to write an entry.
const DISK: Duration = Duration::from_millis(5);

/// What a server keeps over a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Vec<u64>>>);

impl Disk {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    async fn append(&self, entry: u64) {
        sleep(DISK).await;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }
}

/// Both radios at once; a path that fails is left before its timeout.
fn config(config: StackConfig, port: u16) -> Result<StackConfig, Failure> {
    let association = AssociationConfig {
        scheme: Scheme::by_name("multipath").ok_or("there is no scheme multipath")?,
        rto_initial: Some(Span::from_millis(300)),
        rto_min: Span::from_millis(200),
        path_max_retrans: 2,
        hb_interval: Span::from_secs(1),
        ..config.association
    };
    Ok(StackConfig {
        association,
        port,
        ..config
    })
}

/// A server: reports the length of its log to whoever connects, then appends what comes and confirms it.
pub(crate) async fn serve(stack: StackConfig, disk: Disk, hasty: bool) -> Result<(), Failure> {
    let listener = Listener::bind(config(stack, PORT)?)?;
    loop {
        let writer = listener.accept().await?;
        // The writer connects again only after it has given up the earlier association.
        let _ended = follow(&writer, &disk, hasty).await;
    }
}

async fn follow(writer: &Association, disk: &Disk, hasty: bool) -> Result<(), Failure> {
    confirm(writer, disk.len()).await?;
    while let Some(message) = writer.recv().await? {
        let entry = u64::from_be_bytes(message.data[..].try_into()?);
        let len = disk.len();
        if entry != len as u64 {
            return Err(format!("entry {entry} after {len} entries").into());
        }
        if hasty {
            // The mistake: the confirmation leaves before the disk has the entry.
            confirm(writer, len + 1).await?;
        }
        disk.append(entry).await;
        if !hasty {
            confirm(writer, len + 1).await?;
        }
    }
    Ok(())
}

async fn confirm(writer: &Association, len: usize) -> Result<(), Failure> {
    let len = (len as u64).to_be_bytes().to_vec();
    Ok(writer.send(Message::new(0, len)).await?)
}

/// What the writer knows about its servers, and a look at their disks that only a test can have.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    confirmed: watch::Sender<[usize; 3]>,
    disks: Vec<Disk>,
    prints: bool,
    start: Instant,
}

impl Journal {
    pub(crate) fn new(disks: Vec<Disk>, prints: bool) -> Self {
        Journal {
            confirmed: watch::Sender::new([0; 3]),
            disks,
            prints,
            start: Instant::now(),
        }
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        if self.prints {
            println!("{:>6} ms  {what}", self.start.elapsed().as_millis());
        }
    }

    /// Notes how many entries a server has confirmed; checks what is committed by that.
    fn confirm(&self, server: usize, len: usize) -> Result<(), Failure> {
        let mut committed = 0;
        self.confirmed.send_modify(|confirmed| {
            confirmed[server] = len;
            let mut sorted = *confirmed;
            sorted.sort_unstable();
            committed = sorted[1];
        });
        let on_disk = self.disks.iter().filter(|disk| disk.len() >= committed).count();
        if on_disk < 2 {
            return Err(format!("{committed} entries are committed, but on {on_disk} disk only").into());
        }
        Ok(())
    }
}

/// The writer: one task for each server brings it up to date and keeps it so; the robot appends an entry every 50 ms. Ends when all servers
/// have all entries.
pub(crate) async fn write(stack: StackConfig, servers: Vec<Vec<SocketAddr>>, journal: Journal) -> Result<(), Failure> {
    let stack = Stack::bind(config(stack, 0)?)?;
    let log = watch::Sender::new(0);
    let mut tasks = tokio::task::JoinSet::new();
    for (server, addrs) in servers.into_iter().enumerate() {
        tasks.spawn(replicate(
            stack.clone(),
            server,
            addrs,
            log.subscribe(),
            journal.clone(),
        ));
    }
    for entry in 0..ENTRIES {
        log.send_replace(entry + 1);
        tokio::select! {
            biased;
            Some(ended) = tasks.join_next() => ended??,
            () = sleep(Duration::from_millis(50)) => {}
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Connects to one server until it has the whole log.
async fn replicate(
    stack: Stack,
    server: usize,
    addrs: Vec<SocketAddr>,
    log: watch::Receiver<usize>,
    journal: Journal,
) -> Result<(), Failure> {
    loop {
        let association = match timeout(Duration::from_secs(2), stack.connect(&addrs, PORT)).await {
            Ok(Ok(association)) => association,
            _ => {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(mut sent) = next_length(&association).await else {
            continue;
        };
        journal.note(format_args!("server {server} has {sent} entries"));
        let mut log = log.clone();
        loop {
            let len = *log.borrow_and_update();
            while sent < len {
                let entry = (sent as u64).to_be_bytes().to_vec();
                if association.send(Message::new(0, entry)).await.is_err() {
                    break;
                }
                sent += 1;
            }
            tokio::select! {
                biased;
                confirmed = next_length(&association) => {
                    let Some(confirmed) = confirmed else { break };
                    journal.confirm(server, confirmed)?;
                    if confirmed == ENTRIES {
                        association.shutdown().await?;
                        journal.note(format_args!("server {server} has everything"));
                        return Ok(());
                    }
                }
                Ok(()) = log.changed() => {}
                // A server that does not confirm for so long is gone.
                () = sleep(Duration::from_secs(3)) => break,
            }
        }
        journal.note(format_args!(
            "server {server} is lost: {}",
            match association.recv().await {
                Err(error) => error.to_string(),
                Ok(_) => "it does not confirm".to_owned(),
            }
        ));
        association.abort("begins again");
    }
}

/// The next length that the server reports; nothing if the association has ended.
async fn next_length(association: &Association) -> Option<usize> {
    let message = association.recv().await.ok()??;
    let len = u64::from_be_bytes(message.data[..].try_into().ok()?);
    usize::try_from(len).ok()
}
