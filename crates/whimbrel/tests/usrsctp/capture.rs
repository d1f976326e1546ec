//! Captures of a test's packets, and what tshark makes of them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use whimbrel_testkit::{not_run_in_part, program};

/// A chunk type (RFC 9260 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Chunk(u8);

impl Chunk {
    pub(crate) const DATA: Chunk = Chunk(0);
    pub(crate) const FORWARD_TSN: Chunk = Chunk(192);
    pub(crate) const INIT: Chunk = Chunk(1);
    pub(crate) const INIT_ACK: Chunk = Chunk(2);
    pub(crate) const SACK: Chunk = Chunk(3);
    pub(crate) const ABORT: Chunk = Chunk(6);
    pub(crate) const SHUTDOWN: Chunk = Chunk(7);
    pub(crate) const SHUTDOWN_ACK: Chunk = Chunk(8);
    pub(crate) const COOKIE_ECHO: Chunk = Chunk(10);
    pub(crate) const COOKIE_ACK: Chunk = Chunk(11);
    pub(crate) const SHUTDOWN_COMPLETE: Chunk = Chunk(14);
    pub(crate) const AUTH: Chunk = Chunk(15);
    pub(crate) const ASCONF_ACK: Chunk = Chunk(128);
    pub(crate) const ASCONF: Chunk = Chunk(193);
    pub(crate) const TIMESTAMP: Chunk = Chunk(190);
}

/// The packets of a test, captured on the loopback interface if that is possible.
pub(crate) enum Capture {
    Running(Dumpcap),
    /// Why there are none.
    Impossible(String),
}

/// A running dumpcap on the loopback interface.
pub(crate) struct Dumpcap {
    child: Child,
    file: PathBuf,
    port: u16,
}

/// What tshark found; nothing if there was no capture.
pub(crate) struct Decoded {
    chunks: Option<BTreeSet<Chunk>>,
}

impl Capture {
    /// Captures everything to and from a UDP port.
    pub(crate) fn start(port: u16) -> Self {
        let possible = program("tshark", "tshark").and_then(|_| program("dumpcap", "wireshark-common"));
        match possible.and_then(|_| Dumpcap::start(port)) {
            Ok(dumpcap) => Capture::Running(dumpcap),
            Err(reason) => Capture::Impossible(reason),
        }
    }

    /// Ends the capture and has tshark decode it: every packet must be SCTP with a right checksum and without a flaw.
    pub(crate) fn decode(self) -> Decoded {
        let chunks = match self {
            Capture::Running(dumpcap) => Some(dumpcap.decode()),
            Capture::Impossible(reason) => {
                not_run_in_part(
                    module_path!(),
                    &format!("its packets are not checked by tshark: {reason}"),
                );
                None
            }
        };
        Decoded { chunks }
    }
}

impl Dumpcap {
    fn start(port: u16) -> Result<Self, String> {
        let file = std::env::temp_dir().join(format!("whimbrel-usrsctp-{}-{port}.pcapng", std::process::id()));
        let mut child = Command::new("dumpcap")
            .args(["-q", "-B", "64", "-i", "lo", "-f", &format!("udp port {port}"), "-w"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("dumpcap cannot be started: {error}"))?;
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        // It names the file once it captures.
        while !said.contains("File: ") {
            if lines.read_line(&mut said).unwrap() == 0 {
                let _ = child.wait();
                let why = said.lines().find(|line| !line.starts_with("Capturing on"));
                let why = why.unwrap_or("dumpcap: it says nothing");
                return Err(format!("no capture on the loopback interface (it needs root): {why}"));
            }
        }
        // What it says later must not block it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(Dumpcap { child, file, port })
    }

    fn decode(mut self) -> BTreeSet<Chunk> {
        // The kernel hands packets to dumpcap in batches.
        std::thread::sleep(std::time::Duration::from_millis(600));
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        self.child.wait().unwrap();
        let bad = self.tshark(&[
            "-Y",
            "!sctp || _ws.malformed || sctp.checksum.status == 0 || _ws.expert.severity == error",
        ]);
        assert!(bad.is_empty(), "tshark finds fault with:\n{bad}");
        let types = self.tshark(&["-T", "fields", "-e", "sctp.chunk_type"]);
        types
            .split(|c: char| !c.is_ascii_digit())
            .filter(|number| !number.is_empty())
            .map(|number| Chunk(number.parse().unwrap()))
            .collect()
    }

    fn tshark(&self, arguments: &[&str]) -> String {
        let decode_as = format!("udp.port=={},sctp", self.port);
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&self.file)
            .args(["-d", &decode_as, "-o", "sctp.checksum:CRC32C"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "tshark: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Decoded {
    /// The capture must hold each of these chunks.
    pub(crate) fn must_hold(&self, chunks: &[Chunk]) {
        let Some(captured) = &self.chunks else { return };
        for chunk in chunks {
            assert!(
                captured.contains(chunk),
                "no {chunk:?} in the capture, only {captured:?}"
            );
        }
    }

    /// The capture must hold none of these chunks.
    pub(crate) fn must_not_hold(&self, chunks: &[Chunk]) {
        let Some(captured) = &self.chunks else { return };
        for chunk in chunks {
            assert!(!captured.contains(chunk), "{chunk:?} in the capture: {captured:?}");
        }
    }
}

impl Drop for Dumpcap {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}
