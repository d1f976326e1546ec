//! `whimbrel send` and `whimbrel recv` as processes.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod faults;
mod folders;
mod hostile;
#[path = "../common/identity.rs"]
mod identity;
mod idle;
mod interrupts;
mod kept;
mod key;
mod leftovers;
mod links;
mod options;
mod output;
mod paths;
mod peer;
mod recording;
mod relay;
mod restarts;
mod shutdown;
mod trust;

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use identity::encrypted;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use whimbrel::{Message, Stack, StackConfig};
use whimbrel_testkit::process::{InTime, LINE_LIMIT, Lines, Process, finish, list, wait};

const WHIMBREL: &str = env!("CARGO_BIN_EXE_whimbrel");

/// Waits for something that another end does.
async fn in_time<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(LINE_LIMIT, waiting).await.expect("in time")
}

/// A running `whimbrel recv`, stopped at the end of the test. Its first line has been read.
struct Receiver {
    process: Process,
    addrs: Vec<SocketAddr>,
}

impl Deref for Receiver {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Receiver {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Receiver {
    /// Listens on free ports of these IP addresses.
    fn start(listen: &str, dir: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(WHIMBREL);
        command.args(["recv", "--listen", listen]).arg(dir).args(more);
        Self::spawn(command)
    }

    fn spawn(command: Command) -> Self {
        Self::spawn_onto(command, Stdio::piped())
    }

    /// Starts it with this standard output.
    fn spawn_onto(mut command: Command, stdout: Stdio) -> Self {
        let mut process = Process::start(command.stdout(stdout));
        let addrs = process.listening();
        Receiver { process, addrs }
    }

    fn to(&self) -> String {
        list(&self.addrs)
    }

    fn send(&self, file: &Path) -> Output {
        sender(&self.to(), file).output_in_time()
    }

    fn signal(&self, which: Signal) {
        signal(&self.child, which);
    }

    /// Waits for its end. Returns exit code, standard output and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.process.wait();
        let (_, out, err) = self.end_reading();
        (status, out, err)
    }

    /// Waits for its end while it reads its standard output.
    fn end_reading(mut self) -> (Option<i32>, String, String) {
        let stdout = self.child.stdout.take().map(Lines::of);
        let out = stdout.map(|mut lines| lines.rest()).unwrap_or_default();
        let err = self.errors.rest();
        (self.process.wait(), out, err)
    }
}

fn sender(to: &str, file: &Path) -> Command {
    let mut command = Command::new(WHIMBREL);
    command
        .args(["send", "--to", to])
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns bytes without a pattern.
fn content(len: usize) -> Vec<u8> {
    let mut state = 12345_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns the names in a folder.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_arrives_over_two_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("data.bin"), dir.path().join("made/for/it"));
    std::fs::write(&file, content(5_000_001)).unwrap();
    let receiver = Receiver::start("127.0.0.1:0,127.0.0.2:0", &into, &["--once"]);
    let sent = receiver.send(&file);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    // SHA-256 of the content, as both ends print it.
    let printed = text(&sent.stdout);
    let (code, out, err) = receiver.end();
    assert_eq!(code, Some(0), "{err}");
    let digest = printed.lines().nth(1).unwrap();
    assert!(digest.starts_with("sha256 ") && digest.len() == 7 + 64, "{printed}");
    assert_eq!(out.lines().nth(1), Some(digest));
    assert!(out.starts_with("received data.bin from 127.0.0.1:"), "{out}");
    assert!(std::fs::read(into.join("data.bin")).unwrap() == content(5_000_001));
    assert_eq!(names(&into), ["data.bin"]);
}

#[test]
fn senders_may_be_concurrent_and_files_empty() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let sizes = [0, 1, 100_000, 3_000_000];
    let senders: Vec<Child> = sizes
        .iter()
        .map(|size| {
            let file = dir.path().join(format!("f{size}"));
            std::fs::write(&file, content(*size)).unwrap();
            sender(&receiver.to(), &file).spawn().unwrap()
        })
        .collect();
    for mut sender in senders {
        assert_eq!(wait(&mut sender), Some(0));
    }
    for size in sizes {
        assert!(std::fs::read(into.join(format!("f{size}"))).unwrap() == content(size));
    }
    receiver.signal(Signal::SIGINT);
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn both_ends_may_name_a_scheme() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let file = from.path().join("marked");
    std::fs::write(&file, content(300_000)).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", to.path(), &["--once", "--scheme", "ecn"]);
    let sent = sender(&receiver.to(), &file).args(["--scheme", "ecn"]).output_in_time();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(receiver.end().0, Some(0));
    assert_eq!(std::fs::read(to.path().join("marked")).unwrap(), content(300_000));

    for (name, problem, hint) in [
        ("magic", "there is no such scheme", "known schemes: `standard`, `ecn`"),
        ("reno", "there is no such scheme", "did you mean `standard`?"),
        ("oracle", "from the simulator", "there are standard, ecn"),
    ] {
        let wrong = sender("127.0.0.1:9", &file).args(["--scheme", name]).output_in_time();
        assert_eq!(wrong.status.code(), Some(2));
        let said = text(&wrong.stderr);
        assert!(said.contains(problem) && said.contains(hint), "{said}");
    }
}

#[test]
fn an_existing_file_is_kept_unless_forced() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("a"), dir.path().join("in"));
    std::fs::create_dir(&into).unwrap();
    std::fs::write(&file, "new").unwrap();
    std::fs::write(into.join("a"), "old").unwrap();

    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    let sent = receiver.send(&file);
    assert_eq!(sent.status.code(), Some(1));
    let printed = text(&sent.stderr);
    assert!(printed.contains("a exists already"), "{printed}");
    let (code, _, err) = receiver.end();
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(std::fs::read_to_string(into.join("a")).unwrap(), "old");

    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once", "--force"]);
    assert_eq!(receiver.send(&file).status.code(), Some(0));
    assert_eq!(receiver.end().0, Some(0));
    assert_eq!(std::fs::read_to_string(into.join("a")).unwrap(), "new");
}

#[test]
fn distinguishes_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, "x").unwrap();
    let closed = {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().to_string()
    };
    let cases: [(&str, &Path, i32, &str); 4] = [
        (
            &closed,
            &file,
            3,
            "connection refused: no program listens on UDP 127.0.0.1:",
        ),
        (&closed, &dir.path().join("missing"), 1, "cannot read"),
        (
            &closed,
            Path::new("/dev/null"),
            1,
            "it is neither a regular file nor a folder",
        ),
        ("nonsense:x", &file, 2, "is not a UDP port"),
    ];
    let named = sender(&closed, &file).args(["--name", "b"]).output_in_time();
    assert_eq!(named.status.code(), Some(2));
    assert!(
        text(&named.stderr).contains("--name is for standard input"),
        "{}",
        text(&named.stderr)
    );
    for (to, file, code, words) in cases {
        let sent = sender(to, file).output_in_time();
        let printed = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(code), "{to} {file:?}: {printed}");
        assert!(
            printed.contains("error: ") && printed.contains(words),
            "{to} {file:?}: {printed}"
        );
    }
    let unwritable = Command::new(WHIMBREL)
        .args(["recv", "--listen", "127.0.0.1:0", "/proc/no/such"])
        .output_in_time();
    assert_eq!(unwritable.status.code(), Some(1));
    assert!(
        text(&unwritable.stderr).contains("cannot write into /proc/no/such"),
        "{}",
        text(&unwritable.stderr)
    );
    let no_folder = Command::new(WHIMBREL)
        .args(["recv", "--listen", "127.0.0.1:0"])
        .arg(&file)
        .output_in_time();
    assert_eq!(no_folder.status.code(), Some(1));
    assert!(
        text(&no_folder.stderr).contains("it is not a folder"),
        "{}",
        text(&no_folder.stderr)
    );
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let busy = Command::new(WHIMBREL)
        .args(["recv", "--listen", &addr])
        .arg(dir.path())
        .output_in_time();
    assert_eq!(busy.status.code(), Some(1));
    assert!(
        text(&busy.stderr).contains(&format!("cannot bind UDP address {addr}")),
        "{}",
        text(&busy.stderr)
    );
}

#[test]
fn an_interrupted_sender_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("sparse"), dir.path().join("in"));
    // Takes many seconds to send.
    std::fs::File::create(&file).unwrap().set_len(8 << 30).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    let mut sender = sender(&receiver.to(), &file).spawn().unwrap();
    let start = Instant::now();
    while names(&into).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "the transfer did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&sender, Signal::SIGINT);
    assert_eq!(wait(&mut sender), Some(130));
    let (code, _, err) = receiver.end();
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("the sender gave up"), "{err}");
    assert_eq!(names(&into), Vec::<String>::new());
}

#[test]
fn an_interrupted_receiver_notifies_its_sender() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("sparse"), dir.path().join("in"));
    // Takes many seconds to send.
    std::fs::File::create(&file).unwrap().set_len(8 << 30).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let sender = sender(&receiver.to(), &file).spawn().unwrap();
    leftovers::wait_for_part(&into);
    receiver.signal(Signal::SIGTERM);
    let sent = finish(sender);
    assert_eq!(sent.status.code(), Some(1));
    assert!(
        text(&sent.stderr).contains("the receiver was interrupted"),
        "{}",
        text(&sent.stderr)
    );
    assert_eq!(receiver.end().0, Some(130));
    assert_eq!(names(&into), Vec::<String>::new());
}

#[test]
fn a_full_disk_is_reported_at_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("large"), dir.path().join("in"));
    std::fs::write(&file, content(1_000_000)).unwrap();
    // Files of this process may have 100 blocks of 512 bytes.
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$@\"";
    command
        .args([
            "-c",
            script,
            "sh",
            WHIMBREL,
            "recv",
            "--listen",
            "127.0.0.1:0",
            "--once",
        ])
        .arg(&into);
    let receiver = Receiver::spawn(command);
    let sent = receiver.send(&file);
    assert_eq!(sent.status.code(), Some(1));
    let printed = text(&sent.stderr);
    assert!(
        printed.contains("the receiver turned the file down: cannot write large: File too large"),
        "{printed}"
    );
    let (code, _, err) = receiver.end();
    assert_eq!(code, Some(1));
    assert!(err.contains("cannot write large: File too large"), "{err}");
    assert_eq!(names(&into), Vec::<String>::new());
}

/// Returns the receiver's answer to these messages.
async fn answer_to(to: &[SocketAddr], messages: Vec<Message>) -> String {
    let stack = Stack::toward(encrypted(StackConfig::default()), to).unwrap();
    let association = in_time(stack.connect(to, 5000)).await.unwrap();
    for message in messages {
        in_time(association.send(message)).await.unwrap();
    }
    let answer = in_time(association.recv()).await.unwrap().unwrap();
    in_time(association.shutdown()).await.unwrap();
    text(&answer.data)
}

#[tokio::test]
async fn only_a_valid_header_counts_for_once() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("data.bin"), dir.path().join("in"));
    std::fs::write(&file, content(100_000)).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    // A peer that only completes the handshake, a peer that sends an invalid message, and a peer that disconnects.
    let stack = Stack::bind(encrypted(StackConfig::local(["127.0.0.1:0".parse().unwrap()]))).unwrap();
    let silent = in_time(stack.connect(&receiver.addrs, 5000)).await.unwrap();
    let answer = answer_to(&receiver.addrs, vec![Message::new(0, "GET / HTTP/1.1")]).await;
    assert!(answer.contains("a message of another protocol"), "{answer}");
    let other = Stack::toward(encrypted(StackConfig::default()), &receiver.addrs).unwrap();
    drop(in_time(other.connect(&receiver.addrs, 5000)).await.unwrap());
    let sent = receiver.send(&file);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, out, err) = receiver.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("received data.bin"), "{out}");
    let reason = tokio::time::timeout(Duration::from_secs(5), silent.closed())
        .await
        .unwrap();
    assert!(reason.to_string().contains("another transfer was taken"), "{reason}");
}

#[test]
fn a_wrong_sctp_port_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("data.bin");
    std::fs::write(&file, "x").unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &dir.path().join("in"), &[]);
    let start = Instant::now();
    let sent = sender(&receiver.to(), &file).args(["--port", "5001"]).output_in_time();
    assert_eq!(sent.status.code(), Some(3), "{}", text(&sent.stderr));
    assert!(
        text(&sent.stderr).contains("connection refused"),
        "{}",
        text(&sent.stderr)
    );
    assert!(start.elapsed() < Duration::from_secs(5));
}
