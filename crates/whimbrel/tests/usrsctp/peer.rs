//! usrsctp's example programs as processes.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const FOLDER: &str = "/usr/lib/usrsctp";
const PATIENCE: Duration = Duration::from_secs(30);

/// A running program, killed at the end of the test.
pub(crate) struct Peer {
    name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The last lines it has written, for messages about failures; debug builds of usrsctp write thousands.
    said: VecDeque<String>,
}

/// A UDP port that is free at the moment, on any address.
pub(crate) fn free_udp_port() -> u16 {
    UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

/// Whether the programs are there.
pub(crate) fn installed() -> Result<(), String> {
    whimbrel_testkit::program(&format!("{FOLDER}/tsctp"), "libusrsctp-examples").map(|_| ())
}

impl Peer {
    /// Starts a program and waits until it has its UDP port.
    pub(crate) fn start(name: &'static str, arguments: &[&str], udp_port: u16) -> Self {
        let program = Path::new(FOLDER).join(name);
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        let mut peer = Peer {
            name,
            child,
            input,
            lines,
            said: VecDeque::new(),
        };
        peer.wait_for_port(udp_port);
        peer
    }

    fn wait_for_port(&mut self, port: u16) {
        let start = Instant::now();
        while UdpSocket::bind(("0.0.0.0", port)).is_ok() {
            assert!(self.child.try_wait().unwrap().is_none(), "{} ended at once", self.name);
            assert!(
                start.elapsed() < PATIENCE,
                "{} does not bind UDP port {port}",
                self.name
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        // Binding comes before listening; usrsctp says nothing in between.
        std::thread::sleep(Duration::from_millis(200));
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Waits until it writes a line that holds all of `words`.
    pub(crate) fn expect(&mut self, words: &[&str]) {
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!(
                    "{} did not say {words:?} but at last:\n{}",
                    self.name,
                    self.said.make_contiguous().join("\n")
                );
            };
            let found = words.iter().all(|word| line.contains(word));
            if self.said.len() == 30 {
                self.said.pop_front();
            }
            self.said.push_back(line);
            if found {
                return;
            }
        }
    }

    /// Waits until it has ended by itself.
    pub(crate) fn expect_end(&mut self) {
        self.close_input();
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
