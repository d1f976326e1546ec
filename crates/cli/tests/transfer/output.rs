//! Outputs that are closed, full or not read do not affect a transfer.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use super::{Receiver, WHIMBREL, content, finish, sender, text};

/// Sends two files to a receiver with this standard output. Returns its exit code after Ctrl-C, and its standard error.
fn two_files_arrive(stdout: Stdio) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    let mut command = Command::new(WHIMBREL);
    command.args(["recv", "--listen", "127.0.0.1:0"]).arg(&into);
    let receiver = Receiver::spawn_onto(command, stdout);
    for name in ["first", "second"] {
        let file = dir.path().join(name);
        std::fs::write(&file, content(100_000)).unwrap();
        let sent = receiver.send(&file);
        assert_eq!(sent.status.code(), Some(0), "{name}: {}", text(&sent.stderr));
        assert!(std::fs::read(into.join(name)).unwrap() == content(100_000), "{name}");
    }
    receiver.signal(Signal::SIGINT);
    let (code, _, err) = receiver.end();
    (code, err)
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn receiver_takes_files_while_its_output_is_full() {
    let (code, err) = two_files_arrive(full());
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(
        err.matches("warning: cannot write to standard output").count(),
        1,
        "{err}"
    );
}

#[test]
fn receiver_takes_files_after_its_output_was_closed() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(two_files_arrive(writer.into()), (Some(0), String::new()));
}

#[test]
fn receiver_takes_files_while_its_output_is_not_read_and_says_what_was_lost() {
    let (_reader, mut writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while writer.write(&[b'x'; 1000]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let (code, err) = two_files_arrive(writer.into());
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(
        err,
        "warning: standard output is not read; 4 lines of results not printed\n"
    );
}

#[test]
fn results_wait_for_a_reader_that_begins_late() {
    const FILES: usize = 2200;
    let dir = tempfile::tempdir().unwrap();
    let (from, into) = (dir.path().join("many"), dir.path().join("in"));
    std::fs::create_dir(&from).unwrap();
    for number in 0..FILES {
        std::fs::write(from.join(number.to_string()), "x").unwrap();
    }
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    let sending = sender(&receiver.to(), &from).spawn().unwrap();
    // Neither output is read until the transfer is over: a pipe has room for less than half of the lines.
    let start = Instant::now();
    while std::fs::read_dir(into.join("many")).map_or(0, Iterator::count) < FILES {
        assert!(start.elapsed() < Duration::from_secs(120), "the files do not arrive");
        std::thread::sleep(Duration::from_millis(200));
    }
    std::thread::sleep(Duration::from_secs(3));
    let sent = finish(sending);
    let (code, out, err) = receiver.end_reading();
    assert_eq!((sent.status.code(), text(&sent.stderr)), (Some(0), String::new()));
    assert_eq!(text(&sent.stdout).lines().count(), FILES + 1);
    assert_eq!((code, out.lines().count()), (Some(0), FILES + 1), "{err}");
}

#[test]
fn sender_succeeds_although_its_output_is_closed_or_full() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &dir.path().join("in"), &[]);
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let outputs: [(&str, Stdio, Stdio); 3] = [
        ("closed", closed(), closed()),
        ("full", full(), full()),
        ("warned", full(), Stdio::piped()),
    ];
    for (name, stdout, stderr) in outputs {
        let file = dir.path().join(name);
        std::fs::write(&file, content(1000)).unwrap();
        let sending = sender(&receiver.to(), &file).stdout(stdout).stderr(stderr).spawn();
        let sent = finish(sending.unwrap());
        assert_eq!(sent.status.code(), Some(0), "{name}: {}", text(&sent.stderr));
        if name == "warned" {
            let warned = text(&sent.stderr);
            assert!(
                warned.starts_with("warning: cannot write to standard output: "),
                "{warned}"
            );
        }
    }
}

#[test]
fn exit_code_of_an_error_does_not_depend_on_standard_error() {
    let failed = sender("127.0.0.1:9", Path::new("/no/such/file")).stderr(full()).spawn();
    assert_eq!(finish(failed.unwrap()).status.code(), Some(1));
}
