//! The other end: a program in `peers/`, which does what lines say and writes a line for what happens.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use whimbrel_testkit::process::InTime as _;

/// How a peer is started.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<PathBuf>,
    /// Channels that each end opens in the test of many.
    pub(crate) channels: usize,
    /// Messages of each channel in the test of losses.
    pub(crate) messages: u32,
    /// What it lacks. The tests show most of it: one of them fails when the peer has changed.
    pub(crate) lacks: &'static [Lack],
}

/// What a peer lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// The end that answers sends no INIT (RFC 8841 §9.3: both ends do), and the numbers of streams follow from who has offered
    /// (RFC 8832 §6: from the roles of DTLS). str0m sends an INIT as the client of DTLS only.
    Roles,
    /// Empty messages are not sent, but have a sequence number: those after them never arrive (RFC 8831 §6.6).
    EmptyMessages,
    /// Labels and protocols with letters beyond ASCII are cut off (RFC 8832 §5.1).
    Names,
    /// Unordered channels with a limit are opened as ordered ones (RFC 8832 §5.1).
    UnorderedWithLimit,
    /// A SHUTDOWN does not end its channels: its state does not expect the SHUTDOWN COMPLETE (RFC 9260 §9.2). Its own end is silent.
    Shutdown,
    /// Messages are not given up when their lifetime has passed (RFC 8832 §5.1).
    Lifetimes,
    /// It opens a channel on a stream whose reset is not answered yet, and takes the answer for the end of that channel (RFC 8831 §6.7).
    Resets,
    /// Its channels do not use streams of closed ones.
    StreamsAgain,
}

impl Program {
    pub(crate) fn lacks(&self, what: Lack) -> bool {
        self.lacks.contains(&what)
    }
}

/// The folder of a peer.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// Where what is built or fetched for a peer is kept.
pub(crate) fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a command of a preparation.
pub(crate) fn prepare(command: &mut Command) -> Result<(), String> {
    let output = command.output_in_time();
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{:?}: {}", command.get_program(), errors.trim()))
}

/// A channel, as the peer sees it.
#[derive(Default)]
pub(crate) struct Seen {
    /// Protocol, order and reliability, when it opened last.
    pub(crate) opened: Option<String>,
    pub(crate) is_closed: bool,
    /// Messages that have come, and whether their numbers increased.
    pub(crate) count: Option<(usize, bool)>,
}

/// A running program, killed at the end of the test.
pub(crate) struct Peer {
    child: Child,
    lines: Receiver<String>,
    pub(crate) description: Option<String>,
    pub(crate) is_accepted: bool,
    pub(crate) has_ended: bool,
    channels: HashMap<String, Seen>,
}

impl Peer {
    pub(crate) fn start(program: &Program) -> Self {
        let mut child = Command::new(&program.program)
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Peer {
            child,
            lines,
            description: None,
            is_accepted: false,
            has_ended: false,
            channels: HashMap::new(),
        }
    }

    /// Hands it a line.
    pub(crate) fn command(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").expect("the peer runs");
        input.flush().unwrap();
    }

    /// Hands it a line with a session description.
    pub(crate) fn describe(&mut self, command: &str, sdp: &str) {
        self.description = None;
        self.is_accepted = false;
        let hex: String = sdp.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.command(&format!("{command} {hex}"));
    }

    pub(crate) fn channel(&mut self, label: &str) -> &mut Seen {
        self.channels.entry(label.to_owned()).or_default()
    }

    /// Reads the lines that it has written.
    pub(crate) fn run(&mut self) {
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.on(&line),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) if self.has_ended => return,
                Err(TryRecvError::Disconnected) => panic!("the peer has ended: {:?}", self.child.wait()),
            }
        }
    }

    fn on(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match *words {
            ["=", "description", hex] => {
                let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                let bytes = (0..hex.len()).step_by(2).map(byte).collect();
                self.description = Some(String::from_utf8(bytes).unwrap());
            }
            ["=", "accepted"] => self.is_accepted = true,
            ["=", "ended"] => self.has_ended = true,
            ["=", "opened", label, ref settings @ ..] => {
                let channel = self.channel(label);
                channel.opened = Some(settings.join(" "));
                channel.is_closed = false;
            }
            ["=", "closed", label] => self.channel(label).is_closed = true,
            ["=", "count", label, count, increasing] => {
                self.channel(label).count = Some((count.parse().unwrap(), increasing == "increasing"));
            }
            _ => panic!("the peer: {line}"),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
