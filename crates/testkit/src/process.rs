//! Programs that tests run. Each wait for one has a time limit: a test that would hang fails, with what the program has printed.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time limit for the end of a program.
pub const LIMIT: Duration = Duration::from_secs(240);
/// Time limit for a line of its output, and for something else that is expected soon.
pub const LINE_LIMIT: Duration = Duration::from_secs(60);
/// How long a program that has exceeded its time may take to end in good order, before it is killed.
const LAST_MOMENT: Duration = Duration::from_secs(5);
/// The last lines that are shown if another one does not come.
const SHOWN: usize = 20;

/// Runs a program.
pub trait InTime {
    /// Runs it to its end and captures its outputs.
    ///
    /// # Panics
    /// Panics if it cannot be started, or does not end in time.
    #[track_caller]
    fn output_in_time(&mut self) -> Output;
}

impl InTime for Command {
    #[track_caller]
    fn output_in_time(&mut self) -> Output {
        // A program that reads the terminal would wait for it.
        let command = self.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn();
        finish(child.expect("the program starts"))
    }
}

/// Waits for the end of a program, and returns those of its outputs that are pipes.
///
/// # Panics
/// Panics if it does not end in time.
#[track_caller]
pub fn finish(mut child: Child) -> Output {
    drop(child.stdin.take());
    let (out, err) = (child.stdout.take().map(read_all), child.stderr.take().map(read_all));
    let status = end(&mut child);
    let collect = |pipe: Option<Receiver<Vec<u8>>>| {
        // Another program may have the pipe.
        pipe.map_or(Ok(Vec::new()), |pipe| pipe.recv_timeout(LAST_MOMENT))
    };
    let (out, err) = (collect(out), collect(err));
    match (status, out, err) {
        (Some(status), Ok(stdout), Ok(stderr)) => Output { status, stdout, stderr },
        (status, out, err) => {
            let text = |bytes: Result<Vec<u8>, _>| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            panic!(
                "the program did not end within {LIMIT:?}, or another one has its output: {status:?}\n{:?}\n{:?}",
                text(out),
                text(err)
            )
        }
    }
}

/// Waits until something is so.
///
/// # Panics
/// Panics if it is not within [`LINE_LIMIT`].
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LINE_LIMIT, "not within {LINE_LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a program. Returns its exit code, if it was not killed.
///
/// # Panics
/// Panics if it does not end in time.
#[track_caller]
pub fn wait(child: &mut Child) -> Option<i32> {
    end(child)
        .unwrap_or_else(|| panic!("the program did not end within {LIMIT:?}"))
        .code()
}

/// Waits for the end of a program, which is stopped after [`LIMIT`]: then there is no status.
fn end(child: &mut Child) -> Option<std::process::ExitStatus> {
    if let Some(status) = end_within(child, LIMIT) {
        return Some(status);
    }
    // It may have namespaces or files to remove.
    signal(child, "-TERM");
    if end_within(child, LAST_MOMENT).is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    None
}

fn end_within(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        if start.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read_all(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// Sends a signal such as `-INT`.
///
/// # Panics
/// Panics if the process has ended and was waited for.
#[track_caller]
pub fn signal(child: &Child, signal: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([signal, &id]).status();
    assert!(status.expect("kill").success(), "the process {id} exists");
}

/// The lines of an output, which a thread reads.
#[derive(Debug)]
pub struct Lines {
    lines: Receiver<String>,
    /// The last ones.
    seen: VecDeque<String>,
}

impl Lines {
    /// Reads this output.
    pub fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            loop {
                let mut line = Vec::new();
                if !matches!(pipe.read_until(b'\n', &mut line), Ok(1..)) {
                    return;
                }
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        let seen = VecDeque::new();
        Lines { lines, seen }
    }

    /// Returns the next line with its end, or none at the end of the output.
    ///
    /// # Panics
    /// Panics if there is neither within [`LINE_LIMIT`].
    #[track_caller]
    pub fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(LINE_LIMIT) {
            Ok(line) => {
                if self.seen.len() == SHOWN {
                    self.seen.pop_front();
                }
                self.seen.push_back(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line within {LINE_LIMIT:?} after {:?}", self.seen),
        }
    }

    /// Returns the rest of the next line that begins with this.
    ///
    /// # Panics
    /// Panics if there is no such line, or not in time: [`LINE_LIMIT`] for any line, [`LIMIT`] for this one.
    #[track_caller]
    pub fn after(&mut self, begin: &str) -> String {
        let start = Instant::now();
        while let Some(line) = self.next_line() {
            if let Some(rest) = line.trim_end().strip_prefix(begin) {
                return rest.to_owned();
            }
            // A program may repeat other lines without end.
            assert!(
                start.elapsed() < LIMIT,
                "no line {begin:?} within {LIMIT:?}: {:?}",
                self.seen
            );
        }
        panic!("the output has ended without a line {begin:?}: {:?}", self.seen)
    }

    /// Returns everything else until the end of the output.
    ///
    /// # Panics
    /// Panics if there is no line for [`LINE_LIMIT`] and no end, or no end within [`LIMIT`].
    #[track_caller]
    pub fn rest(&mut self) -> String {
        let (mut rest, start) = (String::new(), Instant::now());
        while let Some(line) = self.next_line() {
            rest += &line;
            assert!(
                start.elapsed() < LIMIT,
                "the output does not end within {LIMIT:?}: {:?}",
                self.seen
            );
        }
        rest
    }
}

/// A program that runs during a test, and is killed at its end.
#[derive(Debug)]
pub struct Process {
    /// The process.
    pub child: Child,
    /// Its standard error.
    pub errors: Lines,
}

impl Process {
    /// Starts a program.
    ///
    /// # Panics
    /// Panics if it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let errors = Lines::of(child.stderr.take().expect("a pipe"));
        Process { child, errors }
    }

    /// Waits until it listens. Returns its addresses.
    ///
    /// # Panics
    /// Panics if it does not listen in time.
    #[track_caller]
    pub fn listening(&mut self) -> Vec<SocketAddr> {
        let line = self.errors.after("listening on UDP ");
        let addrs = line.split_once(", SCTP port").map(|(addrs, _)| addrs);
        let addrs = addrs.unwrap_or_else(|| panic!("no SCTP port: {line}"));
        addrs
            .split(", ")
            .map(|addr| addr.parse().unwrap_or_else(|_| panic!("no address: {line}")))
            .collect()
    }

    /// Sends a signal such as `-INT`.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for its end. Returns its exit code, if it was not killed.
    #[track_caller]
    pub fn wait(&mut self) -> Option<i32> {
        wait(&mut self.child)
    }

    /// Ends it by Ctrl-C. Returns its exit code.
    #[track_caller]
    pub fn interrupt(mut self) -> Option<i32> {
        self.signal("-INT");
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Addresses as a list for the command line.
pub fn list(addrs: &[SocketAddr]) -> String {
    let addrs: Vec<String> = addrs.iter().map(ToString::to_string).collect();
    addrs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn outputs_and_exit_code_of_a_program_are_captured() {
        let done = shell("echo one; echo two >&2; exit 3").output_in_time();
        assert_eq!(done.status.code(), Some(3));
        assert_eq!((&done.stdout[..], &done.stderr[..]), (&b"one\n"[..], &b"two\n"[..]));
    }

    #[test]
    fn lines_of_a_program_that_runs_are_read() {
        // A test command that a script runs in the background ignores SIGINT, and so do its children. The program speaks after it no longer
        // does: a signal that comes before is lost.
        let script = "echo note >&2; echo 'listening on UDP 127.0.0.1:7, [::1]:8, SCTP port 5000' >&2; echo end >&2; exec sleep 1000";
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "sh", "-c", script]);
        let mut process = Process::start(&mut command);
        let addrs = process.listening();
        assert_eq!(list(&addrs), "127.0.0.1:7,[::1]:8");
        assert_eq!(process.errors.after("en"), "d");
        assert_eq!(process.interrupt(), None);
    }

    #[test]
    #[should_panic(expected = "has ended without a line \"x\": [\"a\\n\", \"b\\n\"]")]
    fn a_line_that_does_not_come_is_reported_with_those_before() {
        Process::start(&mut shell("echo a >&2; echo b >&2")).errors.after("x");
    }
}
