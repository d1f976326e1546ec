//! Transfers over two networks, one of which fails.

use std::net::IpAddr;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::relay::{Network, join};
use super::{Receiver, finish, sender, text, wait};

const SENDER: [&str; 2] = ["127.0.1.1", "127.0.1.2"];

/// A transfer of a large file in progress, over two networks.
struct Transfer {
    receiver: Receiver,
    sender: Child,
    networks: Vec<Network>,
    into: std::path::PathBuf,
}

fn begin(dir: &Path, more: &[&str]) -> Transfer {
    let (file, into) = (dir.join("sparse"), dir.join("in"));
    std::fs::File::create(&file).unwrap().set_len(24 << 20).unwrap();
    let mut options = vec!["--once"];
    options.extend(more);
    let receiver = Receiver::start("127.0.2.1:0,127.0.2.2:0", &into, &options);
    let senders: Vec<IpAddr> = SENDER.iter().map(|ip| ip.parse().unwrap()).collect();
    let (to, networks) = join(&senders, &receiver.addrs);
    let sender = sender(&to, &file)
        .args(["--local", &SENDER.join(",")])
        .args(more)
        .spawn()
        .unwrap();
    Transfer {
        receiver,
        sender,
        networks,
        into,
    }
}

impl Transfer {
    fn carried(&self) -> u64 {
        self.networks.iter().map(Network::carried).sum()
    }

    fn wait_for(&self, bytes: u64) {
        let start = Instant::now();
        while self.carried() < bytes {
            assert!(start.elapsed() < Duration::from_secs(20), "{} bytes", self.carried());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a network carries data: a path that is not in use does not notice that it is cut.
    fn wait_for_use(&self, network: usize) {
        let (start, before) = (Instant::now(), self.networks[network].carried());
        while self.networks[network].carried() < before + 30_000 {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "network {network} is not used"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the longest time without a byte to the receiver, until `bytes` have been carried.
    fn longest_silence(&self, bytes: u64) -> Duration {
        let (mut last, mut longest, start) = (Instant::now(), Duration::ZERO, Instant::now());
        let mut before = self.carried();
        while before < bytes && start.elapsed() < Duration::from_secs(25) {
            std::thread::sleep(Duration::from_millis(5));
            let now = self.carried();
            // Heartbeats and single probes do not count.
            if now > before + 3000 {
                before = now;
                last = Instant::now();
            }
            longest = longest.max(last.elapsed());
        }
        longest
    }
}

#[test]
fn a_transfer_continues_when_the_primary_path_fails() {
    let dir = tempfile::tempdir().unwrap();
    let mut transfer = begin(dir.path(), &[]);
    transfer.wait_for(3 << 20);
    transfer.wait_for_use(0);
    transfer.networks[0].cut(true);
    let silence = transfer.longest_silence(14 << 20);
    assert!(silence < Duration::from_millis(2500), "nothing came for {silence:?}");
    assert_eq!(wait(&mut transfer.sender), Some(0));
    let output = finish(transfer.sender);
    let (code, _, err) = transfer.receiver.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(std::fs::metadata(transfer.into.join("sparse")).unwrap().len(), 24 << 20);
    let printed = text(&output.stderr);
    // On a busy machine the other path may also answer too late.
    let names_the_path = |line: &str| line.contains("Z path 127.0.1.1:") && line.contains(" to 127.0.2.1:");
    let mut failures = printed.lines().filter(|line| line.contains(" does not answer"));
    assert!(failures.any(names_the_path), "{printed}");
}

/// Returns options with which a path that fails is probed again within 0.6 s, long before the transfer ends.
fn with_short_times() -> Vec<&'static str> {
    let times = [
        "hb_interval=200 ms",
        "rto_initial=400 ms",
        "rto_min=100 ms",
        "rto_max=400 ms",
    ];
    times.map(|time| ["--set", time]).concat()
}

#[test]
fn failure_and_recovery_of_a_path_are_reported_by_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let transfer = begin(dir.path(), &with_short_times());
    transfer.wait_for(2 << 20);
    transfer.networks[0].cut(true);
    std::thread::sleep(Duration::from_millis(1500));
    transfer.networks[0].cut(false);
    let output = finish(transfer.sender);
    let printed = text(&output.stderr);
    assert!(
        printed.contains(" does not answer; data goes over other paths"),
        "{printed}"
    );
    assert!(printed.contains(" works again after "), "{printed}");
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let (code, _, err) = transfer.receiver.end();
    assert!(err.contains(" does not answer"), "{err}");
    assert!(err.contains(" works again after "), "{err}");
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn the_last_path_that_fails_leaves_no_other_for_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let transfer = begin(dir.path(), &with_short_times());
    transfer.wait_for(2 << 20);
    transfer.networks[0].cut(true);
    std::thread::sleep(Duration::from_millis(1200));
    transfer.networks[1].cut(true);
    let output = finish(transfer.sender);
    let printed = text(&output.stderr);
    let mut failures = printed.lines().filter(|line| line.contains(" does not answer"));
    // On a busy machine a path may fail and recover before.
    assert!(
        failures.any(|line| line.ends_with(" does not answer; data goes over other paths")),
        "{printed}"
    );
    assert!(failures.any(|line| line.ends_with(" does not answer")), "{printed}");
    assert_eq!(output.status.code(), Some(5), "{printed}");
}

#[test]
fn the_sender_exits_soon_after_success_over_the_remaining_path() {
    let dir = tempfile::tempdir().unwrap();
    let mut transfer = begin(dir.path(), &["--scheme", "standard"]);
    transfer.wait_for(18 << 20);
    transfer.networks[0].cut(true);
    let into = transfer.into.join("sparse");
    // The file is renamed when it is complete.
    let start = Instant::now();
    while !into.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "the transfer does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let complete = Instant::now();
    assert_eq!(wait(&mut transfer.sender), Some(0));
    assert!(complete.elapsed() < Duration::from_secs(6), "{:?}", complete.elapsed());
}
