//! Captures of a test's packets, and what tshark makes of them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A chunk type (RFC 9260 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Chunk(u8);

impl Chunk {
    pub(crate) const DATA: Chunk = Chunk(0);
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

/// A running dumpcap on the loopback interface.
pub(crate) struct Capture {
    child: Child,
    file: PathBuf,
    port: u16,
}

/// What tshark found.
pub(crate) struct Decoded {
    chunks: BTreeSet<Chunk>,
}

impl Capture {
    /// Captures everything to and from a UDP port.
    pub(crate) fn start(port: u16) -> Self {
        let file = std::env::temp_dir().join(format!("whimbrel-usrsctp-{}-{port}.pcapng", std::process::id()));
        let mut child = Command::new("dumpcap")
            .args(["-q", "-B", "64", "-i", "lo", "-f", &format!("udp port {port}"), "-w"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .expect("dumpcap is missing: `cargo xtask test` installs it, or apt-get install wireshark-common");
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        // It names the file once it captures.
        while !said.contains("File: ") {
            let read = lines.read_line(&mut said).unwrap();
            assert!(
                read > 0,
                "dumpcap cannot capture on the loopback interface (it needs root): {said}"
            );
        }
        // What it says later must not block it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Capture { child, file, port }
    }

    /// Ends the capture and has tshark decode it: every packet must be SCTP with a right checksum and without a flaw.
    pub(crate) fn decode(mut self) -> Decoded {
        // The kernel hands packets to dumpcap in batches.
        std::thread::sleep(std::time::Duration::from_millis(600));
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        self.child.wait().unwrap();
        let bad = self.tshark(&[
            "-Y",
            "!sctp || _ws.malformed || sctp.checksum.status == 0 || _ws.expert.severity == error",
        ]);
        assert!(bad.is_empty(), "tshark finds fault with:\n{bad}");
        let types = self.tshark(&["-T", "fields", "-e", "sctp.chunk_type"]);
        let chunks = types
            .split(|c: char| !c.is_ascii_digit())
            .filter(|number| !number.is_empty())
            .map(|number| Chunk(number.parse().unwrap()))
            .collect();
        Decoded { chunks }
    }

    fn tshark(&self, arguments: &[&str]) -> String {
        let decode_as = format!("udp.port=={},sctp", self.port);
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&self.file)
            .args(["-d", &decode_as, "-o", "sctp.checksum:CRC32C"])
            .args(arguments)
            .output()
            .expect("tshark is missing: `cargo xtask test` installs it, or apt-get install tshark");
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
        for chunk in chunks {
            assert!(
                self.chunks.contains(chunk),
                "no {chunk:?} in the capture, only {:?}",
                self.chunks
            );
        }
    }
}

impl Decoded {
    /// Whether the capture holds the chunk.
    pub(crate) fn holds(&self, chunk: Chunk) -> bool {
        self.chunks.contains(&chunk)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}
