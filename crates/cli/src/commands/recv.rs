//! `whimbrel recv`: files from `whimbrel send`, into a folder or to standard output.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::watch;
use whimbrel::Association;

use crate::output::count;
use crate::transfer::console::Console;
use crate::transfer::failure::{EXIT_CODES, Failure, SECURITY};
use crate::transfer::folder::Folder;
use crate::transfer::frame::{Frame, Header, MAX_MESSAGE, json_line, visible};
use crate::transfer::holders::{Activity, Holders, Holding};
use crate::transfer::idle::{IdleOptions, Patience};
use crate::transfer::interrupt::Interrupt;
use crate::transfer::listen::{self, EVICT_AFTER, Serving, Until, farewell, last_word};
use crate::transfer::options::Options;
use crate::transfer::progress::{hex, summary};
use crate::transfer::receiving::{Receiving, ReceivingFolder, Taken, Target, next_header};
use crate::transfer::run::block_on;
use crate::transfer::{address, paths};
use crate::tui::Tui;

/// The reason of an abort if a sender does not end the association after its transfer.
const FAREWELL: &str = "the transfer is over";
/// With `--once`: why another sender is turned down.
const ANOTHER: &str = "another transfer was taken";
/// With `--once`: how long a sender waits for the end of a transfer whose sender does not answer, and how often it looks.
const TAKEOVER: Duration = Duration::from_secs(12);
const LOOK: Duration = Duration::from_millis(100);

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
    /// End after one transfer with a valid header. If its sender does not answer any more, another sender takes its place
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
    idle: IdleOptions,
    #[command(flatten)]
    options: Options,
}

/// What every transfer needs to know.
#[derive(Clone)]
struct TransferContext {
    target: Arc<Target>,
    force: bool,
    json: bool,
    patience: Patience,
    tui: Tui,
    console: Console,
    interrupt: Interrupt,
    /// Transfers that have begun and not ended.
    incomplete: Arc<AtomicUsize>,
    once: Option<Arc<Once>>,
}

/// With `--once`: the transfer.
struct Once {
    current: Holders<()>,
    /// The transfer has ended.
    is_over: watch::Sender<bool>,
}

/// What a transfer has: with `--once` the only place.
type Claim<'p> = Option<Holding<'p, ()>>;

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
    let security = listen::prepare(&args.options, console)?;
    let interrupt = Interrupt::listen()?;
    let is_output = args.dir == Path::new("-");
    let target = if is_output {
        Target::Output
    } else {
        let cannot = |e: std::io::Error| Failure::file(format!("cannot write into {}: {e}", args.dir.display()));
        let (folder, leftovers) = Folder::open(&args.dir, &interrupt).map_err(cannot)?;
        if leftovers > 0 {
            console.note(format!(
                "removed {} of a receiver that was killed",
                count(leftovers as u64, "partial file")
            ));
        }
        Target::Folder(ReceivingFolder::new(folder))
    };
    let risk = if is_output {
        "write to standard output".to_owned()
    } else {
        format!("write files into {}", args.dir.display())
    };
    let serving = Serving {
        streams: 1,
        max_message: MAX_MESSAGE,
        evict_after: EVICT_AFTER,
        risk: &risk,
    };
    let listening = listen::bind(&args.listen, &args.options, security, serving, console)?;
    let once = || Once {
        current: Holders::default(),
        is_over: watch::Sender::new(false),
    };
    let context = TransferContext {
        target: Arc::new(target),
        force: args.force,
        json: args.json,
        patience: args.idle.patience(),
        tui: tui.clone(),
        console: console.clone(),
        interrupt,
        incomplete: Arc::default(),
        once: (args.once || is_output).then(|| Arc::new(once())),
    };
    let attend = |association| {
        let context = context.clone();
        async move { attend(association, &context).await }
    };
    let until = if context.once.is_some() {
        Until::Ended
    } else {
        Until::Interrupt
    };
    let serving = listen::serve(listening, until, &context.interrupt, console, attend);
    let outcome = serving.await?;
    if let Target::Folder(folder) = &*context.target {
        folder.idle().await;
    }
    if context.interrupt.is_asked() && context.incomplete.load(Ordering::Relaxed) > 0 {
        return Err(Failure::interrupted("interrupted"));
    }
    match outcome {
        _ if context.once.is_none() => Ok(()),
        None => Err(Failure::interrupted("interrupted")),
        // The transfer has already printed its failure; only its exit code remains.
        Some(outcome) => outcome.map_err(|failure| Failure {
            message: "the transfer failed".to_owned(),
            ..failure
        }),
    }
}

impl TransferContext {
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

    /// Takes an association for a transfer.
    ///
    /// # Errors
    /// Returns an error if, with `--once`, another one was first and its sender answers.
    async fn claim(&self, association: &Association, last: &Arc<Activity>) -> Result<Claim<'_>, Failure> {
        let Some(once) = &self.once else { return Ok(None) };
        let start = Instant::now();
        loop {
            if *once.is_over.borrow() {
                return Err(Failure::file(ANOTHER));
            }
            if let Some(holding) = once.current.try_insert((), association, last) {
                return Ok(Some(holding));
            }
            // What was written to standard output cannot be taken back.
            let may_wait = matches!(&*self.target, Target::Folder(_)) && start.elapsed() < TAKEOVER;
            if !may_wait || once.current.is_in_use(&()).await {
                return Err(Failure::file(format!(
                    "{ANOTHER}, and this receiver takes one (--once)"
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// With `--once`, waits until the transfer has ended.
    async fn over(&self) {
        match &self.once {
            // The sender is there as long as `self`.
            Some(once) => drop(once.is_over.subscribe().wait_for(|is_over| *is_over).await),
            None => std::future::pending().await,
        }
    }

    /// The transfer has ended.
    fn end(&self) {
        if let Some(once) = &self.once {
            once.is_over.send_replace(true);
        }
    }
}

/// One peer, from its header to the end of the association. Nothing if it is no sender: it has not sent a valid header, or not in time.
async fn attend(association: Association, context: &TransferContext) -> Option<Result<(), Failure>> {
    let peer = paths::peer(&association);
    let last = Activity::new();
    let claimed = async {
        let header = next_header(&association, context.patience).await?;
        let header = header.ok_or_else(|| Failure::file("the sender has sent nothing"))?;
        Ok((header, context.claim(&association, &last).await?))
    };
    let claimed = tokio::select! {
        biased;
        claimed = claimed => claimed,
        () = context.over() => {
            association.abort(ANOTHER);
            return None;
        }
        () = context.interrupt.asked(1) => Err(Failure::interrupted("the receiver was interrupted")),
    };
    let (header, claim) = match claimed {
        Ok(claimed) => claimed,
        Err(failure) => {
            tokio::select! {
                () = refuse(&association, &peer, &failure, context) => {}
                () = context.over() => association.abort(ANOTHER),
            }
            return None;
        }
    };
    context.incomplete.fetch_add(1, Ordering::Relaxed);
    let _watching = context.tui.watch(&format!("from {peer}"), &association);
    let outcome = tokio::select! {
        outcome = take_all(&association, &peer, header, &last, context) => outcome,
        () = context.interrupt.asked(1) => Err(Failure::interrupted("the receiver was interrupted")),
        never = paths::watch(&association, &context.console) => match never {},
    };
    if outcome.is_ok() || !context.interrupt.is_asked() {
        context.incomplete.fetch_sub(1, Ordering::Relaxed);
    }
    let is_replaced = claim.is_some() && last.is_released();
    if !is_replaced {
        context.end();
    }
    drop(claim);
    match outcome {
        Ok(()) => {
            farewell(&association, FAREWELL).await;
            Some(Ok(()))
        }
        Err(failure) => {
            refuse(&association, &peer, &failure, context).await;
            (!is_replaced).then_some(Err(failure))
        }
    }
}

/// Takes everything that a sender has, from its first header on.
async fn take_all(
    association: &Association,
    peer: &str,
    header: Header,
    last: &Arc<Activity>,
    context: &TransferContext,
) -> Result<(), Failure> {
    let receiving = Receiving {
        association,
        last,
        target: &context.target,
        force: context.force,
        patience: context.patience,
        console: &context.console,
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
            context.report(&taken, peer, is_single_file(&header));
        }
        // If the sender has gone, what it has said before decides whether that was everything.
        let _ = receiving.send(Frame::Done).await;
        next = next_header(association, context.patience).await?;
        if next.is_some() && matches!(&*context.target, Target::Output) {
            return Err(Failure::file("standard output takes one file"));
        }
    }
    if files != 1 && !context.json {
        let line = format!(
            "received {} from {peer}: {}",
            count(files, "file"),
            summary(bytes, start.elapsed())
        );
        context.console.say(line);
    }
    Ok(())
}

/// Reports a failure here and to the sender.
async fn refuse(association: &Association, peer: &str, failure: &Failure, context: &TransferContext) {
    let line = format!("error: transfer from {peer}: {}", failure.message);
    context.console.note(line);
    let report = Frame::Failed(failure.message.clone()).into_message();
    last_word(association, report, FAREWELL).await;
}
