//! `whimbrel recv`: files from `whimbrel send`, into a folder or to standard output.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;
use tokio::sync::watch;
use whimbrel::Association;

use crate::transfer::console::Console;
use crate::transfer::failure::{EXIT_CODES, Failure, SECURITY};
use crate::transfer::folder::Folder;
use crate::transfer::frame::{Frame, Header, MAX_MESSAGE, json_line, visible};
use crate::transfer::holders::Activity;
use crate::transfer::interrupt::Interrupt;
use crate::transfer::listen::{self, Until, farewell};
use crate::transfer::options::{End, Options};
use crate::transfer::progress::{hex, summary};
use crate::transfer::receiving::{Receiving, ReceivingFolder, Taken, Target, next_header};
use crate::transfer::run::block_on;
use crate::transfer::{address, paths};
use crate::tui::Tui;

/// The reason of an abort if a sender does not end the association after its transfer.
const FAREWELL: &str = "the transfer is over";

const NOTES: &str = "\
If a transfer fails because the sender was killed or cannot be reached, the received part stays in a \
hidden file, .whimbrel-*.partial. A later transfer of the same file continues from it. The part is \
discarded after Ctrl-C at either end, if the file has changed, or if the digest is wrong. A receiver that \
starts in the folder removes parts that are older than seven days.
";

/// Receive files and folders over SCTP from `whimbrel send`
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{NOTES}\n{SECURITY}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Folder for received files; created if it does not exist. With `-`, one file is written to standard output: data is written when it
    /// arrives, before the digest is verified, and the exit code reports the result of the verification
    dir: PathBuf,
    /// Local addresses to listen on, each an IP address, with a UDP port unless it is 9899. 0.0.0.0 means all IPv4
    /// addresses of this host, `[::]` all IPv4 and IPv6 addresses
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true, value_parser = address::parse_listen)]
    listen: Vec<SocketAddr>,
    /// End after the first transfer with a valid header
    #[arg(long)]
    once: bool,
    /// Replace existing files; by default they are kept and the transfer is refused
    #[arg(long)]
    force: bool,
    /// Print one line of JSON for each file: {"name", "peer", "bytes", "begin", "sha256", "seconds"}; `begin` is the place from which it was
    /// received. With `-`, the lines go to standard error
    #[arg(long)]
    json: bool,
    /// Show rate, congestion window, round-trip time and losses of each path, live, if standard output is a terminal
    #[arg(long)]
    tui: bool,
    #[command(flatten)]
    options: Options,
}

/// What every transfer needs to know.
#[derive(Clone)]
struct Place {
    target: Arc<Target>,
    force: bool,
    json: bool,
    tui: Tui,
    console: Console,
    interrupt: Interrupt,
    /// Transfers that have begun and not ended.
    incomplete: Arc<AtomicUsize>,
    /// With `--once`: whether a transfer has begun.
    once: Option<watch::Sender<bool>>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    block_on(&console, async {
        let tui = Tui::start(args.tui, "whimbrel recv", &console);
        let outcome = receive(args, &console, &tui).await;
        tui.end();
        outcome
    })
}

async fn receive(args: &Args, console: &Console, tui: &Tui) -> Result<(), Failure> {
    args.options.association(End::Listens)?;
    let interrupt = Interrupt::listen()?;
    let is_output = args.dir == Path::new("-");
    let target = if is_output {
        Target::Output
    } else {
        let cannot = |e: std::io::Error| Failure::file(format!("cannot write into {}: {e}", args.dir.display()));
        let (folder, leftovers) = Folder::open(&args.dir, &interrupt).map_err(cannot)?;
        if leftovers > 0 {
            console.note(format!(
                "removed {leftovers} partial files of a receiver that was killed"
            ));
        }
        Target::Folder(ReceivingFolder::new(folder))
    };
    let risk = if is_output {
        "write to standard output".to_owned()
    } else {
        format!("write files into {}", args.dir.display())
    };
    let listener = listen::bind(&args.listen, &args.options, 1, MAX_MESSAGE, &risk, console)?;
    let place = Place {
        target: Arc::new(target),
        force: args.force,
        json: args.json,
        tui: tui.clone(),
        console: console.clone(),
        interrupt,
        incomplete: Arc::default(),
        once: (args.once || is_output).then(|| watch::Sender::new(false)),
    };
    let attend = |association| {
        let place = place.clone();
        async move { attend(association, &place).await }
    };
    let serving = listen::serve(
        listener,
        Until::Interrupt,
        place.begun(),
        &place.interrupt,
        console,
        attend,
    );
    let outcome = serving.await?;
    if let Target::Folder(folder) = &*place.target {
        folder.idle().await;
    }
    if place.interrupt.is_asked() && place.incomplete.load(Ordering::Relaxed) > 0 {
        return Err(Failure::interrupted("interrupted"));
    }
    match outcome {
        _ if place.once.is_none() => Ok(()),
        None => Err(Failure::interrupted("interrupted")),
        // The transfer has already printed its failure; only its exit code remains.
        Some(outcome) => outcome.map_err(|failure| Failure {
            message: "the transfer failed".to_owned(),
            ..failure
        }),
    }
}

impl Place {
    /// Prints what was received: to standard error if the content goes to standard output.
    fn report(&self, taken: &Taken, peer: &str, with_digest_below: bool) {
        let digest = hex(&taken.digest);
        let seconds = taken.elapsed.as_secs_f64();
        let lines = if self.json {
            let (name, bytes, begin) = (&taken.name, taken.size, taken.from);
            let line = json!({ "name": name, "peer": peer, "bytes": bytes, "begin": begin, "sha256": digest, "seconds": seconds });
            vec![json_line(&line)]
        } else if with_digest_below {
            let summary = summary(taken.size - taken.from, taken.elapsed);
            vec![
                format!("received {} from {peer}: {summary}", visible(&taken.name)),
                format!("sha256 {digest}"),
            ]
        } else {
            vec![format!("{digest}  {}", visible(&taken.name))]
        };
        for line in lines {
            match &*self.target {
                Target::Folder(_) => self.console.say(line),
                Target::Output => self.console.note(line),
            }
        }
    }

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
    let peer = paths::peer(&association);
    let header = tokio::select! {
        biased;
        header = next_header(&association) => header.and_then(|header| {
            header.ok_or_else(|| Failure::file("the sender has sent nothing"))
        }),
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
    place.incomplete.fetch_add(1, Ordering::Relaxed);
    let _watching = place.tui.watch(&format!("from {peer}"), &association);
    let outcome = tokio::select! {
        outcome = take_all(&association, &peer, header, place) => outcome,
        () = place.interrupt.asked(1) => Err(Failure::interrupted("the receiver was interrupted")),
        never = paths::watch(&association, &place.console) => match never {},
    };
    if outcome.is_ok() || !place.interrupt.is_asked() {
        place.incomplete.fetch_sub(1, Ordering::Relaxed);
    }
    match outcome {
        Ok(()) => {
            farewell(&association, FAREWELL).await;
            Some(Ok(()))
        }
        Err(failure) => {
            refuse(&association, &peer, &failure, place).await;
            Some(Err(failure))
        }
    }
}

/// Takes everything that a sender has, from its first header on.
async fn take_all(association: &Association, peer: &str, header: Header, place: &Place) -> Result<(), Failure> {
    let last = Activity::new();
    let receiving = Receiving {
        association,
        last: &last,
        target: &place.target,
        force: place.force,
        console: &place.console,
    };
    let is_single_file = |header: &Header| !header.is_folder && !header.name.contains('/');
    let start = Instant::now();
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let mut next = Some(header);
    while let Some(header) = next {
        let taken = receiving.take(&header).await?;
        if let Some(taken) = taken {
            files += 1;
            bytes += taken.size - taken.from;
            place.report(&taken, peer, is_single_file(&header));
        }
        // If the sender has gone, what it has said before decides whether that was everything.
        let _ = association.send(Frame::Done.into_message()).await;
        next = next_header(association).await?;
        if next.is_some() && matches!(&*place.target, Target::Output) {
            return Err(Failure::file("standard output takes one file"));
        }
    }
    if files != 1 && !place.json {
        let line = format!(
            "received {files} files from {peer}: {}",
            summary(bytes, start.elapsed())
        );
        place.console.say(line);
    }
    Ok(())
}

/// Reports a failure here and to the sender.
async fn refuse(association: &Association, peer: &str, failure: &Failure, place: &Place) {
    let line = format!("error: transfer from {peer}: {}", failure.message);
    place.console.note(line);
    let report = Frame::Failed(failure.message.clone()).into_message();
    if association.send(report).await.is_ok() {
        farewell(association, FAREWELL).await;
    }
}
