//! `--key`: authentication of senders.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{InTime as _, Receiver, content, names, sender, text};

fn key(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

const ONE: &str = "0123456789abcdef0123456789abcdef\n";
const OTHER: &str = "fedcba9876543210fedcba9876543210\n";

#[test]
fn file_arrives_if_both_ends_have_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("a"), dir.path().join("in"));
    std::fs::write(&file, content(1_000_000)).unwrap();
    let here = key(dir.path(), "here", ONE);
    // The line end is not part of the key.
    let there = key(dir.path(), "there", ONE.trim());
    let receiver = Receiver::start(
        "127.0.0.1:0,127.0.0.2:0",
        &into,
        &["--once", "--key", there.to_str().unwrap()],
    );
    let sent = sender(&receiver.to(), &file).arg("--key").arg(&here).output_in_time();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert!(std::fs::read(into.join("a")).unwrap() == content(1_000_000));
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn other_key_or_none_is_refused_and_explained_at_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("a"), dir.path().join("in"));
    std::fs::write(&file, "x").unwrap();
    let (one, other) = (key(dir.path(), "one", ONE), key(dir.path(), "other", OTHER));
    let (one, other) = (one.to_str().unwrap(), other.to_str().unwrap());
    // Another key is not answered (RFC 4895 §6.3): one repetition is enough here.
    let other_once = ["--key", other, "--set", "max_init_retransmits=1"];
    let cases: [(&[&str], &[&str], &str, bool); 5] = [
        (
            &["--key", one],
            &other_once,
            "error: an end that has another key, or none, does not answer (timed out",
            true,
        ),
        // The sender ends after the INIT ACK. Without dynamic addresses, its INIT is refused.
        (&["--key", one], &[], "the other end needs --key FILE", false),
        (
            &["--key", one],
            &["--set", "dynamic_addresses=false"],
            "the other end needs --key FILE",
            true,
        ),
        (
            &[],
            &other_once,
            "error: an end that has another key, or none, does not answer (timed out",
            false,
        ),
        (
            &["--set", "dynamic_addresses=false"],
            &["--key", other],
            "the other end uses no key",
            false,
        ),
    ];
    for (receiving, sending, words, is_reported) in cases {
        let receiver = Receiver::start("127.0.0.1:0", &into, receiving);
        let start = Instant::now();
        let sent = sender(&receiver.to(), &file).args(sending).output_in_time();
        let printed = text(&sent.stderr);
        assert!(printed.contains(words), "{words}: {printed}");
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{words}: {:?}",
            start.elapsed()
        );
        assert!(![Some(0), Some(101)].contains(&sent.status.code()), "{words}");
        std::thread::sleep(Duration::from_millis(500));
        receiver.signal(Signal::SIGINT);
        let (_, _, err) = receiver.end();
        let reported = err.contains("of a sender that has another key, or none");
        assert_eq!(reported, is_reported, "{words}: {err}");
        assert!(
            !printed.contains(OTHER.trim()) && !err.contains(ONE.trim()),
            "{printed}{err}"
        );
    }
    assert_eq!(names(&into), Vec::<String>::new());
}

#[test]
fn ping_and_perf_say_that_the_other_end_needs_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let one = key(dir.path(), "one", ONE);
    let receiver = Receiver::start("127.0.0.1:0", &dir.path().join("in"), &["--key", one.to_str().unwrap()]);
    for command in ["ping", "perf"] {
        let output = std::process::Command::new(super::WHIMBREL)
            .args([command, &receiver.to()])
            .output_in_time();
        let printed = text(&output.stderr);
        assert!(
            printed.contains("the other end needs --key FILE"),
            "{command}: {printed}"
        );
    }
}

#[test]
fn a_receiver_with_another_key_ends_the_sender_after_the_time_given() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("a"), dir.path().join("in"));
    std::fs::write(&file, "x").unwrap();
    let (one, other) = (key(dir.path(), "one", ONE), key(dir.path(), "other", OTHER));
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--key", one.to_str().unwrap()]);
    for (more, seconds) in [(&[][..], 10), (&["--connect-timeout", "500 ms"][..], 0)] {
        let start = Instant::now();
        let mut command = sender(&receiver.to(), &file);
        let sent = command.arg("--key").arg(&other).args(more).output_in_time();
        let printed = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(5), "{printed}");
        assert!(printed.contains("the other end does not accept the key"), "{printed}");
        assert!(
            (seconds..seconds + 5).contains(&start.elapsed().as_secs()),
            "{:?}",
            start.elapsed()
        );
    }
}

#[test]
fn an_unsuitable_key_file_is_reported_without_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, "x").unwrap();
    let open = key(dir.path(), "open", ONE);
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o640)).unwrap();
    let cases = [
        (open, "other users can read or change it (mode 640); chmod 600 "),
        (
            key(dir.path(), "short", "secret\n"),
            "it has 6 bytes, allowed are 16 to 128",
        ),
        (key(dir.path(), "long", &"x".repeat(200)), "it has at least "),
        (dir.path().to_owned(), "it is not a regular file"),
        (dir.path().join("missing"), "cannot be read"),
    ];
    for (path, words) in cases {
        let sent = sender("127.0.0.1:9", &file).arg("--key").arg(&path).output_in_time();
        let printed = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(2), "{printed}");
        assert!(
            printed.contains(words) && !printed.contains("secret") && !printed.contains("xxx"),
            "{printed}"
        );
    }
}

#[test]
fn receiver_without_a_key_warns_on_addresses_that_others_can_reach() {
    let dir = tempfile::tempdir().unwrap();
    for (more, listen, warns) in [
        (false, "0.0.0.0:0", true),
        (true, "0.0.0.0:0", false),
        (false, "127.0.0.1:0", false),
    ] {
        let path = key(dir.path(), "key", ONE);
        let key = ["--key", path.to_str().unwrap()];
        let receiver = Receiver::start(listen, &dir.path().join("in"), if more { &key } else { &[] });
        let reachable = receiver.addrs.iter().any(|addr| !addr.ip().is_loopback());
        std::thread::sleep(Duration::from_millis(200));
        receiver.signal(Signal::SIGINT);
        let (_, _, err) = receiver.end();
        assert_eq!(
            err.contains("warning: anyone who can reach"),
            warns && reachable,
            "{err}"
        );
    }
}
