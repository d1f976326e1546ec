//! `whimbrel send`: one file to a `whimbrel recv`.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use whimbrel::Association;

use crate::transfer::connect::Toward;
use crate::transfer::console::Console;
use crate::transfer::failure::{EXIT_CODES, Failure, SECURITY};
use crate::transfer::frame::{DATA_BYTES, DIGEST_BYTES, Frame, check_name};
use crate::transfer::interrupt::Interrupt;
use crate::transfer::options::Options;
use crate::transfer::progress::{hex, summary};
use crate::transfer::run::block_on;
use crate::transfer::{address, paths};

/// Pieces of the file read ahead of the network.
const READ_AHEAD: usize = 16;
/// After Ctrl-C the shutdown may take this long before the association is aborted.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);
/// The same once the receiver has the file: time for a SHUTDOWN that is lost and repeated on another path (RTO.Min is 1 s).
const FAREWELL_PATIENCE: Duration = Duration::from_secs(3);

/// Send a file over SCTP to `whimbrel recv`
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{SECURITY}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// The file to send
    file: PathBuf,
    /// Addresses of `whimbrel recv`: one or several of the same host, each an IP address or host name with or without a UDP port
    /// (9899)
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true, value_parser = address::parse_peer)]
    to: Vec<SocketAddr>,
    #[command(flatten)]
    toward: Toward,
    #[command(flatten)]
    options: Options,
}

/// How long to wait for the receiver's reason once sending has failed.
const LAST_WORD: Duration = Duration::from_millis(500);

/// A piece of the file, or its end with the digest.
enum Piece {
    Data(Bytes),
    End([u8; DIGEST_BYTES]),
    Failed(String),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    block_on(&console, send(args, &console))
}

async fn send(args: &Args, console: &Console) -> Result<(), Failure> {
    let (file, name, size) = open(&args.file)?;
    let interrupt = Interrupt::listen()?;
    let stack = args.toward.stack(&args.to, &args.options)?;
    let connecting = args
        .toward
        .connect(&stack, &args.to, &args.options, &interrupt, console);
    let association = connecting.await?;

    let start = Instant::now();
    let outcome = tokio::select! {
        outcome = transfer(&association, file, &name, size, console) => outcome,
        () = interrupt.asked(1) => Err(Failure::interrupted("interrupted; the receiver keeps nothing of the file")),
        never = paths::watch(&association, console) => match never {},
    };
    let digest = match outcome {
        Ok(digest) => digest,
        Err(failure) => {
            end_early(&association, &failure, &interrupt).await;
            stack.wait_idle().await;
            return Err(failure);
        }
    };
    console.say(format!("sent {name}: {}", summary(size, start.elapsed())));
    console.say(format!("sha256 {}", hex(&digest)));
    // The receiver has the file. What becomes of the shutdown changes nothing, and is not waited for if a path has failed.
    if tokio::time::timeout(FAREWELL_PATIENCE, association.shutdown())
        .await
        .is_err()
    {
        association.abort("the transfer is over");
    }
    stack.wait_idle().await;
    Ok(())
}

/// Opens the file; gives the name it will have at the other end, and its size.
fn open(path: &Path) -> Result<(File, String, u64), Failure> {
    let cannot = |e: &dyn std::fmt::Display| Failure::file(format!("cannot read {}: {e}", path.display()));
    let file = File::open(path).map_err(|e| cannot(&e))?;
    let metadata = file.metadata().map_err(|e| cannot(&e))?;
    if !metadata.is_file() {
        return Err(cannot(&"it is not a regular file"));
    }
    let name = path.file_name().ok_or_else(|| cannot(&"it has no name"))?;
    let name = name.to_str().ok_or_else(|| cannot(&"its name is not UTF-8"))?;
    check_name(name).map_err(|why| Failure::file(format!("cannot send the file name {name:?}: {why}")))?;
    Ok((file, name.to_owned(), metadata.len()))
}

/// Sends everything and waits for the receiver's verdict.
async fn transfer(
    association: &Association,
    file: File,
    name: &str,
    size: u64,
    console: &Console,
) -> Result<[u8; DIGEST_BYTES], Failure> {
    let (pieces_in, mut pieces) = mpsc::channel(READ_AHEAD);
    let reader = tokio::task::spawn_blocking(move || read(file, size, &pieces_in));
    let bar = console.bar(name, size);
    let outcome = {
        let header = Frame::Header {
            name: name.to_owned(),
            size,
        };
        let sending = send_pieces(association, header, &mut pieces, &bar);
        let verdict = hear_verdict(association);
        tokio::pin!(sending, verdict);
        tokio::select! {
            sent = &mut sending => match sent {
                // A send fails when the association ends; why it did is the receiver's last word, if there is one.
                Err(failure) => match tokio::time::timeout(LAST_WORD, verdict).await {
                    Ok(Err(failure)) => Err(failure),
                    _ => Err(failure),
                },
                Ok(digest) => verdict.await.map(|()| digest),
            },
            reported = &mut verdict => match reported {
                Err(failure) => Err(failure),
                Ok(()) => Err(Failure::file("the receiver said it has the file before it was sent")),
            },
        }
    };
    bar.finish_and_clear();
    drop(pieces);
    // The reader ends as soon as its pieces are no longer taken.
    let _ = reader.await;
    outcome
}

/// Sends header, content and digest.
async fn send_pieces(
    association: &Association,
    header: Frame,
    pieces: &mut mpsc::Receiver<Piece>,
    bar: &ProgressBar,
) -> Result<[u8; DIGEST_BYTES], Failure> {
    association.send(header.into_message()).await?;
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Data(bytes) => {
                let len = bytes.len() as u64;
                association.send(Frame::Data(bytes).into_message()).await?;
                bar.inc(len);
            }
            Piece::End(digest) => {
                association.send(Frame::Trailer(digest).into_message()).await?;
                return Ok(digest);
            }
            Piece::Failed(why) => return Err(Failure::file(why)),
        }
    }
    Err(Failure::file("the file could not be read to its end"))
}

/// Waits for what the receiver says. It speaks once: when it has the file, or when it cannot take it.
async fn hear_verdict(association: &Association) -> Result<(), Failure> {
    match association.recv().await? {
        Some(message) => match Frame::from_message(message) {
            Ok(Frame::Done) => Ok(()),
            Ok(Frame::Failed(why)) => Err(Failure::file(format!("the receiver turned the file down: {why}"))),
            Ok(_) => Err(Failure::file("the receiver said something that only a sender says")),
            Err(what) => Err(Failure::file(format!("the receiver sent {what}"))),
        },
        None => Err(Failure {
            code: 6,
            message: "the receiver ended the association early".to_owned(),
        }),
    }
}

/// Reads the file into pieces, and its digest.
fn read(mut file: File, size: u64, pieces: &mpsc::Sender<Piece>) {
    let mut hasher = Sha256::new();
    let mut left = size;
    while left > 0 {
        let mut piece = vec![0; DATA_BYTES.min(usize::try_from(left).unwrap_or(DATA_BYTES))];
        let piece = match file.read(&mut piece) {
            Ok(0) => Piece::Failed("the file became shorter while it was sent".to_owned()),
            Ok(len) => {
                piece.truncate(len);
                hasher.update(&piece);
                left -= len as u64;
                Piece::Data(piece.into())
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => Piece::Failed(format!("cannot read the file to its end: {e}")),
        };
        let failed = matches!(piece, Piece::Failed(_));
        if pieces.blocking_send(piece).is_err() || failed {
            return;
        }
    }
    // The digest of a transfer that has ended early is not used.
    let _ = pieces.blocking_send(Piece::End(hasher.finalize().into()));
}

/// Reports the end of the data to the receiver and shuts the association down; aborts it if that takes too long.
async fn end_early(association: &Association, failure: &Failure, interrupt: &Interrupt) {
    let in_good_order = async {
        if association.send(Frame::Cancel.into_message()).await.is_ok() {
            // Why the association ends is known already.
            let _ = association.shutdown().await;
        }
    };
    tokio::select! {
        () = in_good_order => {}
        () = tokio::time::sleep(SHUTDOWN_PATIENCE) => association.abort(&failure.message),
        () = interrupt.asked(2) => association.abort("interrupted"),
    }
}
