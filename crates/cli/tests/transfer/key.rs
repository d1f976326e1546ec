//! `--key`: encryption, and with `--auth-only` authentication, of both ends.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
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

/// Passes datagrams on, and keeps them.
fn relay(to: &str) -> (String, Arc<Mutex<Vec<Vec<u8>>>>) {
    let to: SocketAddr = to.parse().unwrap();
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (seen, sender) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None)));
    let pass = |from: &UdpSocket, onward: &UdpSocket, is_near: bool| {
        let (from, onward) = (from.try_clone().unwrap(), onward.try_clone().unwrap());
        let (seen, sender) = (seen.clone(), sender.clone());
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok((len, source)) = from.recv_from(&mut buffer) {
                seen.lock().unwrap().push(buffer[..len].to_vec());
                let target = if is_near {
                    *sender.lock().unwrap() = Some(source);
                    Some(to)
                } else {
                    *sender.lock().unwrap()
                };
                let _ = target.map(|target| onward.send_to(&buffer[..len], target));
            }
        });
    };
    pass(&near, &far, true);
    pass(&far, &near, false);
    (near.local_addr().unwrap().to_string(), seen)
}

#[test]
fn file_arrives_if_both_ends_have_the_key() {
    for more in [&[][..], &["--auth-only"]] {
        let dir = tempfile::tempdir().unwrap();
        let (file, into) = (dir.path().join("a"), dir.path().join("in"));
        std::fs::write(&file, content(1_000_000)).unwrap();
        let here = key(dir.path(), "here", ONE);
        // The line end is not part of the key.
        let there = key(dir.path(), "there", ONE.trim());
        let receiver = Receiver::start(
            "127.0.0.1:0,127.0.0.2:0",
            &into,
            &[&["--once", "--key", there.to_str().unwrap()], more].concat(),
        );
        let mut command = sender(&receiver.to(), &file);
        let sent = command.arg("--key").arg(&here).args(more).output_in_time();
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        assert!(std::fs::read(into.join("a")).unwrap() == content(1_000_000));
        assert_eq!(receiver.end().0, Some(0));
    }
}

#[test]
fn nothing_is_readable_on_the_way_unless_that_is_asked_for() {
    const CONTENT: &str = "no host on the path may read this sentence, which is in the file";
    const NAME: &str = "a-name-that-is-not-readable";
    let modes: [(&[&str], bool); 4] = [
        (&["--key"], false),
        (&["--key", "--auth-only"], true),
        (&[], false),
        (&["--insecure"], true),
    ];
    for (more, is_readable) in modes {
        let dir = tempfile::tempdir().unwrap();
        let (file, into) = (dir.path().join(NAME), dir.path().join("in"));
        std::fs::write(&file, CONTENT.repeat(1000)).unwrap();
        let path = key(dir.path(), "key", ONE);
        let mut key = vec!["--once"];
        for word in more {
            key.push(word);
            key.extend((*word == "--key").then(|| path.to_str().unwrap()));
        }
        let receiver = Receiver::start("127.0.0.1:0", &into, &key);
        let (addr, seen) = relay(&receiver.to());
        let sent = sender(&addr, &file).args(&key[1..]).output_in_time();
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        assert_eq!(std::fs::read_to_string(into.join(NAME)).unwrap(), CONTENT.repeat(1000));
        assert_eq!(receiver.end().0, Some(0));
        let seen = seen.lock().unwrap();
        assert!(seen.iter().map(Vec::len).sum::<usize>() > 60_000, "{}", seen.len());
        for secret in [CONTENT, NAME, ONE.trim()] {
            let shows = |packet: &Vec<u8>| packet.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert_eq!(
                seen.iter().any(shows),
                is_readable && secret != ONE.trim(),
                "{more:?} {secret}"
            );
        }
    }
}

/// How two ends were started, what the sender says, and whether the receiver reports an end without the key.
type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a str, bool);

fn is_refused_and_explained(cases: &[Case<'_>], dir: &Path) {
    let (file, into) = (dir.join("a"), dir.join("in"));
    std::fs::write(&file, "x").unwrap();
    for &(receiving, sending, words, is_reported) in cases {
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
        let reported = err.contains("warning: refused");
        assert_eq!(reported, is_reported, "{words}: {err}");
        assert!(
            !printed.contains(OTHER.trim()) && !err.contains(ONE.trim()),
            "{printed}{err}"
        );
    }
    assert_eq!(names(&into), Vec::<String>::new());
}

// Another key is not answered: one repetition is enough here.
const ONE_MORE: [&str; 2] = ["--set", "max_init_retransmits=1"];
const SILENT: [&str; 2] = [
    "error: an end with another key does not answer (timed out",
    "error: an end with another key, or none, does not answer (timed out",
];

#[test]
fn other_key_or_none_is_refused_and_explained_at_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (key(dir.path(), "one", ONE), key(dir.path(), "other", OTHER));
    let one = ["--key", one.to_str().unwrap()];
    let other = ["--key", other.to_str().unwrap()];
    let other_once = [other, ONE_MORE].concat();
    let auth_only = [&one[..], &["--auth-only"]].concat();
    let none = ["--insecure"];
    let cases: [Case<'_>; 11] = [
        (&one, &other_once, SILENT[0], false),
        (&one, &none, "the other end encrypts: remove --insecure here", true),
        (
            &none,
            &other,
            "the other end does not encrypt: add --key FILE there",
            false,
        ),
        (&one, &[], "one end has --key FILE and the other has an identity", true),
        (&[], &one, "one end has --key FILE and the other has an identity", false),
        (&[], &none, "the other end encrypts: remove --insecure here", false),
        (
            &none,
            &[],
            "the other end does not encrypt: remove --insecure there",
            false,
        ),
        (
            &[],
            &auth_only,
            "the other end encrypts: remove --auth-only here",
            false,
        ),
        (
            &auth_only,
            &[],
            "the other end requires authentication: add --key FILE",
            true,
        ),
        (
            &one,
            &auth_only,
            "the other end encrypts: remove --auth-only here",
            true,
        ),
        (&auth_only, &one, "the other end has --auth-only: add it here", true),
    ];
    is_refused_and_explained(&cases, dir.path());
}

#[test]
fn other_key_or_none_is_refused_without_encryption_too() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (key(dir.path(), "one", ONE), key(dir.path(), "other", OTHER));
    let one = ["--key", one.to_str().unwrap(), "--auth-only"];
    let other = ["--key", other.to_str().unwrap(), "--auth-only"];
    let other_once = [&other[..], &ONE_MORE].concat();
    let cases: [Case<'_>; 5] = [
        (&one, &other_once, SILENT[1], true),
        // The sender ends after the INIT ACK. Without dynamic addresses, its INIT is refused.
        (
            &one,
            &["--insecure"],
            "the other end requires authentication: add --key FILE --auth-only here",
            false,
        ),
        (
            &one,
            &["--insecure", "--set", "dynamic_addresses=false"],
            "the other end requires authentication: add --key FILE --auth-only here",
            true,
        ),
        (&["--insecure"], &other_once, SILENT[1], false),
        (
            &["--insecure", "--set", "dynamic_addresses=false"],
            &other,
            "the other end uses no key",
            false,
        ),
    ];
    is_refused_and_explained(&cases, dir.path());
}

#[test]
fn ping_and_perf_say_that_the_other_end_has_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let one = key(dir.path(), "one", ONE);
    let receiver = Receiver::start("127.0.0.1:0", &dir.path().join("in"), &["--key", one.to_str().unwrap()]);
    for command in ["ping", "perf"] {
        let output = std::process::Command::new(super::WHIMBREL)
            .args([command, &receiver.to()])
            .output_in_time();
        let printed = text(&output.stderr);
        assert!(
            printed.contains("one end has --key FILE and the other has an identity"),
            "{command}: {printed}"
        );
    }
}

// It learns that only when the sender has not shown its key in 10 s.
#[test]
fn a_receiver_reports_a_sender_with_another_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, "x").unwrap();
    let (one, other) = (key(dir.path(), "one", ONE), key(dir.path(), "other", OTHER));
    let into = dir.path().join("in");
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--key", one.to_str().unwrap()]);
    let mut command = sender(&receiver.to(), &file);
    let sent = command.arg("--key").arg(&other).args(ONE_MORE).output_in_time();
    assert_eq!(sent.status.code(), Some(5), "{}", text(&sent.stderr));
    std::thread::sleep(Duration::from_secs(12));
    receiver.signal(Signal::SIGINT);
    let (_, _, err) = receiver.end();
    assert!(
        err.contains("warning: refused 1 association of a sender that has another key, or none"),
        "{err}"
    );
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
