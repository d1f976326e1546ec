//! `whimbrel recv`: files from `whimbrel send`, into a folder.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use whimbrel::Association;

use crate::transfer::console::Console;
use crate::transfer::failure::{EXIT_CODES, Failure, SECURITY};
use crate::transfer::folder::Folder;
use crate::transfer::frame::{DIGEST_BYTES, Frame, MAX_MESSAGE, check_name};
use crate::transfer::interrupt::Interrupt;
use crate::transfer::listen::{self, LAST_PACKETS, STRANGERS_INTERVAL, Unauthenticated};
use crate::transfer::options::Options;
use crate::transfer::progress::{hex, summary};
use crate::transfer::run::block_on;
use crate::transfer::{address, paths};

/// Pieces of a file that wait for the disk.
const WRITE_BEHIND: usize = 16;
/// How long a sender may take to end the association after its transfer.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);

/// Receive files over SCTP from `whimbrel send`
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{SECURITY}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Folder for received files; created if it does not exist
    dir: PathBuf,
    /// Local addresses to listen on, each an IP address with or without a UDP port (9899); 0.0.0.0 means all IPv4 addresses of this
    /// host, `[::]` all IPv4 and IPv6 addresses
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true, value_parser = address::parse_listen)]
    listen: Vec<SocketAddr>,
    /// End after one transfer: the first one with a valid header
    #[arg(long)]
    once: bool,
    /// Replace existing files; by default they are kept and the transfer is refused
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    options: Options,
}

/// What every transfer needs to know.
#[derive(Clone)]
struct Place {
    folder: Arc<Folder>,
    force: bool,
    console: Console,
    interrupt: Interrupt,
    /// With `--once`: whether a transfer has begun.
    once: Option<watch::Sender<bool>>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    block_on(&console, receive(args, &console))
}

async fn receive(args: &Args, console: &Console) -> Result<(), Failure> {
    args.options.association()?;
    let cannot = |e: std::io::Error| Failure::file(format!("cannot write into {}: {e}", args.dir.display()));
    let (folder, leftovers) = Folder::open(&args.dir).map_err(cannot)?;
    if leftovers > 0 {
        console.note(format!(
            "removed {leftovers} partial files of a receiver that was killed"
        ));
    }
    let interrupt = Interrupt::listen()?;
    let risk = format!("write files into {}", args.dir.display());
    let listener = listen::bind(&args.listen, &args.options, MAX_MESSAGE, &risk, console)?;
    let stack = listener.stack().clone();

    let place = Place {
        folder: Arc::new(folder),
        force: args.force,
        console: console.clone(),
        interrupt,
        once: args.once.then(|| watch::Sender::new(false)),
    };
    let mut transfers = JoinSet::new();
    let mut unauthenticated = Unauthenticated::default();
    let mut strangers = tokio::time::interval(STRANGERS_INTERVAL);
    let mut outcome = Ok(());
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let association = accepted?;
                let place = place.clone();
                transfers.spawn(async move { attend(association, &place).await });
            }
            () = place.begun() => break,
            Some(ended) = transfers.join_next() => outcome = result_of(ended).unwrap_or(outcome),
            _ = strangers.tick() => unauthenticated.report(&stack, console),
            () = place.interrupt.asked(1) => break,
        }
    }
    let busy = !transfers.is_empty();
    drop(listener);
    let rest = async {
        while let Some(ended) = transfers.join_next().await {
            if let Some(ended) = result_of(ended) {
                outcome = ended;
            }
        }
        stack.wait_idle().await;
    };
    tokio::select! {
        () = rest => {}
        () = place.interrupt.asked(2) => {
            // Transfers that are dropped abort their associations.
            transfers.shutdown().await;
            let _ = tokio::time::timeout(LAST_PACKETS, stack.wait_idle()).await;
        }
    }
    if args.once && !place.interrupt.is_asked() {
        // The transfer has already printed its failure; only its exit code remains.
        return outcome.map_err(|failure| Failure {
            message: "the transfer failed".to_owned(),
            ..failure
        });
    }
    if busy || args.once {
        Err(Failure::interrupted("interrupted"))
    } else {
        Ok(())
    }
}

/// What came of a transfer; nothing if there was none.
fn result_of(ended: Result<Option<Result<(), Failure>>, tokio::task::JoinError>) -> Option<Result<(), Failure>> {
    ended.unwrap_or_else(|e| Some(Err(Failure::file(format!("a transfer broke: {e}")))))
}

impl Place {
    /// Takes the header of an association for a transfer. False if it is not needed: with `--once`, another one was first.
    fn claim(&self) -> bool {
        let once = self.once.as_ref();
        once.is_none_or(|once| once.send_if_modified(|taken| !std::mem::replace(taken, true)))
    }

    /// With `--once`, waits until a transfer has begun.
    async fn begun(&self) {
        match &self.once {
            // The sender is there as long as `self`.
            Some(once) => drop(once.subscribe().wait_for(|taken| *taken).await),
            None => std::future::pending().await,
        }
    }
}

/// One peer, from its header to the end of the association. Nothing if it is no sender: it has not sent a valid header, or not in time.
async fn attend(association: Association, place: &Place) -> Option<Result<(), Failure>> {
    let peer = association
        .peer_addrs()
        .first()
        .map_or_else(|| "?".to_owned(), ToString::to_string);
    let header = tokio::select! {
        biased;
        header = take_header(&association) => header,
        () = place.begun() => {
            association.abort("another transfer was taken");
            return None;
        }
        () = place.interrupt.asked(1) => Err(Failure::interrupted("the receiver was interrupted")),
    };
    let header = match header {
        Ok(header) if place.claim() => header,
        Ok(_) => {
            association.abort("another transfer was taken");
            return None;
        }
        Err(failure) => {
            tokio::select! {
                () = refuse(&association, &peer, &failure, place) => {}
                () = place.begun() => association.abort("another transfer was taken"),
            }
            return None;
        }
    };
    let outcome = tokio::select! {
        outcome = take_file(&association, header, place) => outcome,
        () = place.interrupt.asked(1) => Err(Failure::interrupted("the receiver was interrupted")),
        never = paths::watch(&association, &place.console) => match never {},
    };
    match outcome {
        Ok((name, size, digest, elapsed)) => {
            let _ = association.send(Frame::Done.into_message()).await;
            let console = &place.console;
            console.say(format!("received {name} from {peer}: {}", summary(size, elapsed)));
            console.say(format!("sha256 {}", hex(&digest)));
            farewell(&association).await;
            Some(Ok(()))
        }
        Err(failure) => {
            refuse(&association, &peer, &failure, place).await;
            Some(Err(failure))
        }
    }
}

/// Reports a failure here and to the sender.
async fn refuse(association: &Association, peer: &str, failure: &Failure, place: &Place) {
    let line = format!("error: transfer from {peer}: {}", failure.message);
    place.console.note(line);
    let report = Frame::Failed(failure.message.clone()).into_message();
    if association.send(report).await.is_ok() {
        farewell(association).await;
    }
}

/// Waits until the sender, whose turn it is, has ended the association; what it still sends is dropped.
async fn farewell(association: &Association) {
    let mut scrap = Vec::new();
    let ended = async { while let Ok(Some(_)) = association.recv_into(&mut scrap).await {} };
    if tokio::time::timeout(SHUTDOWN_PATIENCE, ended).await.is_err() {
        association.abort("the transfer is over");
    }
}

/// What a whole transfer gives: name, size, digest and how long it took.
type Taken = (String, u64, [u8; DIGEST_BYTES], Duration);

/// The file's name and size.
async fn take_header(association: &Association) -> Result<(String, u64), Failure> {
    match next_frame(association).await? {
        Frame::Header { name, size } => match check_name(&name) {
            Ok(()) => Ok((name, size)),
            Err(why) => Err(Failure::file(format!("cannot take the file name {name:?}: {why}"))),
        },
        Frame::Cancel => Err(Failure::interrupted("the sender gave up")),
        _ => Err(Failure::file("the sender did not begin with a header")),
    }
}

async fn take_file(association: &Association, header: (String, u64), place: &Place) -> Result<Taken, Failure> {
    let (name, size) = header;
    let start = Instant::now();
    let path = place.folder.join(&name);
    if !place.force && path.symlink_metadata().is_ok() {
        return Err(Failure::file(format!(
            "{name} exists already, and --force was not given"
        )));
    }
    let cannot = |e: std::io::Error| Failure::file(format!("cannot write {name}: {e}"));
    place.folder.check_room(size).map_err(cannot)?;
    let part = place.folder.part_file().map_err(cannot)?;

    let bar = place.console.bar(&name, size);
    let (mut writer, ended) = Writer::start(part);
    let digest = take_content(association, size, &mut writer, &bar).await;
    drop(writer);
    bar.finish_and_clear();
    // What the disk says comes first: a transfer that stopped because of it has no other reason.
    let (part, written) = ended
        .await
        .map_err(|_| Failure::file("the writer stopped"))?
        .map_err(cannot)?;
    let announced = digest?;
    if written != announced {
        let (written, announced) = (hex(&written), hex(&announced));
        return Err(Failure::file(format!(
            "digest of {name} is {written}, the sender reports {announced}"
        )));
    }
    let kept = if place.force {
        part.persist(&path)
    } else {
        part.persist_noclobber(&path)
    };
    kept.map_err(|e| cannot(e.error))?;
    Ok((name, size, announced, start.elapsed()))
}

/// Hands the content to the writer; gives the digest that the sender reports at the end.
async fn take_content(
    association: &Association,
    size: u64,
    writer: &mut Writer,
    bar: &indicatif::ProgressBar,
) -> Result<[u8; DIGEST_BYTES], Failure> {
    let mut left = size;
    loop {
        match next_frame(association).await? {
            Frame::Data(bytes) => {
                let len = bytes.len() as u64;
                left = left
                    .checked_sub(len)
                    .ok_or_else(|| Failure::file(format!("the sender sent more than the {size} bytes it announced")))?;
                writer.write(bytes).await?;
                bar.inc(len);
            }
            Frame::Trailer(digest) if left == 0 => return Ok(digest),
            Frame::Trailer(_) => {
                return Err(Failure::file(format!(
                    "the sender sent {left} bytes fewer than it announced"
                )));
            }
            Frame::Cancel => return Err(Failure::interrupted("the sender gave up")),
            _ => return Err(Failure::file("the sender said something that only a receiver says")),
        }
    }
}

async fn next_frame(association: &Association) -> Result<Frame, Failure> {
    match association.recv().await? {
        Some(message) => Frame::from_message(message).map_err(|what| Failure::file(format!("the sender sent {what}"))),
        None => Err(Failure {
            code: 6,
            message: "the sender ended the association early".to_owned(),
        }),
    }
}

/// Writes to the disk in a thread of its own, so that a slow disk does not hold up the network.
struct Writer {
    pieces: mpsc::Sender<Bytes>,
}

type Written = std::io::Result<(NamedTempFile, [u8; DIGEST_BYTES])>;

impl Writer {
    /// The writer, and what comes of it once it is dropped: the file and its digest.
    fn start(mut part: NamedTempFile) -> (Self, oneshot::Receiver<Written>) {
        let (pieces, mut queue) = mpsc::channel::<Bytes>(WRITE_BEHIND);
        let (ended, result) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let mut hasher = Sha256::new();
            let mut write_all = || {
                while let Some(piece) = queue.blocking_recv() {
                    hasher.update(&piece);
                    part.write_all(&piece)?;
                }
                part.flush()
            };
            let written = write_all();
            drop(queue);
            // The receiving end is gone if the transfer has ended early.
            let _ = ended.send(written.map(|()| (part, hasher.finalize().into())));
        });
        (Writer { pieces }, result)
    }

    async fn write(&mut self, piece: Bytes) -> Result<(), Failure> {
        // The reason is the writer's result.
        self.pieces
            .send(piece)
            .await
            .map_err(|_| Failure::file("the disk takes no more"))
    }
}
