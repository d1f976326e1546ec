//! The memory of a tunnel whose path stalls.

use std::io::Write;
use std::time::{Duration, Instant};

use whimbrel_testkit::process::Process;

use super::{connect, echo, tunnel};

/// The memory that a process has asked for, in bytes.
fn memory(end: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", end.child.id())).expect("a process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmData:"))
        .expect("a line");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn single_bytes_that_wait_for_a_stalled_path_take_little_memory() {
    let target = format!("127.0.0.1:{}", echo());
    let (server, client, port) = tunnel(&target, &target);
    let mut tcp = connect(port);
    tcp.set_nodelay(true).expect("a socket");
    tcp.write_all(b"x").expect("sent");
    std::thread::sleep(Duration::from_millis(200));
    let before = memory(&client);
    server.signal("-STOP");
    // Each is read by itself. The association has to last: it is lost after 5 s without an answer.
    let (start, mut bytes) = (Instant::now(), 0);
    while bytes < 2000 && start.elapsed() < Duration::from_secs(3) {
        tcp.write_all(b"x").expect("sent");
        bytes += 1;
        std::thread::sleep(Duration::from_micros(100));
    }
    std::thread::sleep(Duration::from_millis(200));
    let grown = memory(&client).saturating_sub(before);
    server.signal("-CONT");
    assert!(grown < (1 << 20) + 1000 * bytes, "{grown} bytes for {bytes}");
}
