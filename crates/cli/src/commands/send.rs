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
use whimbrel::{Association, ConnectError, Span, Stack, StackConfig};

use crate::transfer::console::Console;
use crate::transfer::failure::{EXIT_CODES, Failure, SECURITY};
use crate::transfer::frame::{DATA_BYTES, DIGEST_BYTES, Frame, check_name};
use crate::transfer::interrupt::Interrupt;
use crate::transfer::options::Options;
use crate::transfer::progress::{hex, summary};
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
    /// Local addresses to send from, each an IP address with or without a UDP port. Default: chosen by the routing table
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = address::parse_local)]
    local: Vec<SocketAddr>,
    /// End if the receiver has not accepted the association after this time. Default: 10 s with --key, as a receiver with another key
    /// does not answer; otherwise when all repetitions are over, which takes 31 s
    #[arg(long, value_name = "TIME")]
    connect_timeout: Option<Span>,
    #[command(flatten)]
    options: Options,
}

/// With a key, silence of the receiver is explained after this time.
const SILENCE: Duration = Duration::from_secs(2);
/// With a key, time after which the receiver is taken to have another one, unless given.
const KEY_PATIENCE: Span = Span::from_secs(10);
const OTHER_KEY: &str = "a receiver that has another key does not answer";

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
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::file(format!("cannot start: {e}")))
        .and_then(|runtime| runtime.block_on(send(args, &console)));
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console.note(format!("error: {}", failure.message));
            ExitCode::from(failure.code)
        }
    };
    console.finish();
    code
}

async fn send(args: &Args, console: &Console) -> Result<(), Failure> {
    let association = args.options.association()?;
    let (file, name, size) = open(&args.file)?;
    let interrupt = Interrupt::listen()?;
    let config = StackConfig {
        local: args.local.clone(),
        association,
        ..StackConfig::default()
    };
    let stack = Stack::toward(config, &args.to)?;
    let association = tokio::select! {
        connected = stack.connect(&args.to, args.options.port) => {
            connected.map_err(|error| explain_key(error, args.options.key.is_some()))?
        }
        never = note_silence(args.options.key.is_some(), console) => match never {},
        failure = give_up(args) => return Err(failure),
        () = interrupt.asked(1) => return Err(Failure::interrupted("interrupted before the connection was made")),
    };

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

/// Says soon why there may be no answer: a receiver discards what another key has authenticated (RFC 4895 §6.3).
async fn note_silence(has_key: bool, console: &Console) -> std::convert::Infallible {
    if has_key {
        tokio::time::sleep(SILENCE).await;
        console.note(format!("no answer yet: {OTHER_KEY}"));
    }
    std::future::pending().await
}

/// Returns the failure once the receiver has been silent for too long.
async fn give_up(args: &Args) -> Failure {
    let has_key = args.options.key.is_some();
    let Some(patience) = args.connect_timeout.or(has_key.then_some(KEY_PATIENCE)) else {
        return std::future::pending().await;
    };
    tokio::time::sleep(Duration::from_nanos(patience.as_nanos())).await;
    let cause = if has_key {
        format!(
            "the receiver does not accept the key: {OTHER_KEY} (no association after {patience}; --connect-timeout)"
        )
    } else {
        format!("the receiver does not answer (no association after {patience}; --connect-timeout)")
    };
    Failure::timed_out(cause)
}

/// A failure to connect, with the remedy if one end has no key or another one.
fn explain_key(error: ConnectError, has_key: bool) -> Failure {
    let text = error.to_string();
    let remedy = match has_key {
        true if matches!(error, ConnectError::TimedOut(_)) => OTHER_KEY,
        true if text.contains("required authentication") => "the receiver uses no key: start it with --key FILE",
        // RFC 4895 §6.1: what the INIT lacks is the parameters of authentication.
        false if text.contains("missing mandatory parameter") => {
            "the receiver takes files only with its key: --key FILE"
        }
        _ => return error.into(),
    };
    let failure = Failure::from(error);
    Failure {
        message: format!("{remedy} ({})", failure.message),
        ..failure
    }
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
