//! Folders, several files, standard input and output, and transfers that continue.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{InTime as _, Receiver, WHIMBREL, content, finish, names, sender, signal, text, wait};

/// A folder with files in folders.
fn tree(dir: &Path) -> PathBuf {
    let root = dir.join("photos");
    std::fs::create_dir_all(root.join("2026/may")).unwrap();
    std::fs::create_dir_all(root.join("empty")).unwrap();
    std::fs::write(root.join("index"), content(10)).unwrap();
    std::fs::write(root.join("2026/large"), content(700_000)).unwrap();
    std::fs::write(root.join("2026/may/nothing"), "").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
    root
}

#[test]
fn a_file_without_a_size_arrives_whole() {
    // proc(5): its metadata have a size of 0.
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let sent = sender(&receiver.to(), Path::new("/proc/sys/kernel/ostype")).output_in_time();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(std::fs::read(dir.path().join("ostype")).unwrap(), b"Linux\n");
}

#[test]
fn a_folder_and_several_files_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let (root, into) = (tree(dir.path()), dir.path().join("in"));
    let other = dir.path().join("other");
    std::fs::write(&other, content(300_000)).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let sent = sender(&receiver.to(), &root).arg(&other).output_in_time();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    for file in ["index", "2026/large", "2026/may/nothing"] {
        let there = into.join("photos").join(file);
        assert_eq!(
            std::fs::read(there).unwrap(),
            std::fs::read(root.join(file)).unwrap(),
            "{file}"
        );
    }
    assert_eq!(std::fs::read(into.join("other")).unwrap(), content(300_000));
    assert!(into.join("photos/empty").is_dir() && !into.join("photos/link").exists());
    assert_eq!(names(&into), ["other", "photos"]);
    assert!(
        text(&sent.stderr).contains("link is left out"),
        "{}",
        text(&sent.stderr)
    );
    // The digests are those of sha256sum.
    let printed = text(&sent.stdout);
    assert_eq!(printed.lines().count(), 5, "{printed}");
    assert!(
        printed.contains("  photos/2026/large\n") && printed.contains("sent 4 files: "),
        "{printed}"
    );

    // Again: everything is there, and large files are not sent again. Their bytes do not count.
    let summed = sender(&receiver.to(), &root).arg(&other).output_in_time();
    assert!(
        text(&summed.stdout).contains("sent 4 files: 10 bytes in "),
        "{}",
        text(&summed.stdout)
    );
    let again = sender(&receiver.to(), &root).arg(&other).arg("--json").output_in_time();
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    let large = text(&again.stdout)
        .lines()
        .find(|line| line.contains("2026/large"))
        .unwrap()
        .to_owned();
    let large: serde_json::Value = serde_json::from_str(&large).unwrap();
    assert_eq!((&large["bytes"], &large["begin"]), (&700_000.into(), &700_000.into()));

    // Another content of the same size is refused.
    std::fs::write(root.join("2026/large"), vec![7; 700_000]).unwrap();
    let other = sender(&receiver.to(), &root).output_in_time();
    assert_eq!(other.status.code(), Some(1));
    assert!(
        text(&other.stderr).contains("photos/2026/large exists already"),
        "{}",
        text(&other.stderr)
    );
    assert_eq!(std::fs::read(into.join("photos/2026/large")).unwrap(), content(700_000));
    receiver.signal(Signal::SIGINT);
    let (code, out, err) = receiver.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("received 4 files from 127.0.0.1:"), "{out}");
}

#[test]
fn a_link_in_the_folder_of_the_receiver_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let (root, into, outside) = (tree(dir.path()), dir.path().join("in"), dir.path().join("outside"));
    std::fs::create_dir_all(&into).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, into.join("photos")).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--force"]);
    let sent = sender(&receiver.to(), &root).output_in_time();
    assert_eq!(sent.status.code(), Some(1));
    assert!(text(&sent.stderr).contains("is not a folder"), "{}", text(&sent.stderr));
    assert_eq!(names(&outside), [""; 0]);
}

#[test]
fn standard_input_arrives_at_standard_output() {
    let receiver = Receiver::start("127.0.0.1:0", Path::new("-"), &[]);
    let mut sender = sender(&receiver.to(), Path::new("-"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = sender.stdin.take().unwrap();
    input.write_all(&content(40_000)).unwrap();
    drop(input);
    let sent = finish(sender);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert!(
        text(&sent.stdout).contains("sent stdin: 40.0 kB"),
        "{}",
        text(&sent.stdout)
    );
    let mut child = receiver;
    // Standard output is read to its end below, by a limit of time: the content fits into the pipe.
    assert_eq!(child.wait(), Some(0));
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut child.child.stdout.take().unwrap(), &mut out).unwrap();
    assert!(out == content(40_000));
    let (code, _, err) = child.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("received stdin") && err.contains("sha256 "), "{err}");
}

#[test]
fn standard_input_can_have_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &["--once"]);
    let mut sender = sender(&receiver.to(), Path::new("-"))
        .args(["--name", "log.txt"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    sender.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    assert_eq!(wait(&mut sender), Some(0));
    assert_eq!(receiver.end().0, Some(0));
    assert_eq!(std::fs::read_to_string(dir.path().join("log.txt")).unwrap(), "a line\n");
}

#[test]
fn names_that_clash_are_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for folder in [&a, &b] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("x"), "").unwrap();
    }
    let sent = sender("127.0.0.1:9", &a.join("x")).arg(b.join("x")).output_in_time();
    assert_eq!(sent.status.code(), Some(2));
    assert!(
        text(&sent.stderr).contains("two files have the name x"),
        "{}",
        text(&sent.stderr)
    );
}

#[test]
fn a_file_and_a_folder_of_one_name_are_refused_in_either_order() {
    let dir = tempfile::tempdir().unwrap();
    let (file, folder) = (dir.path().join("a/x"), dir.path().join("b/x"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    std::fs::write(&file, "").unwrap();
    for (one, other) in [(&file, &folder), (&folder, &file)] {
        let sent = sender("127.0.0.1:9", one).arg(other).output_in_time();
        let printed = text(&sent.stderr);
        assert!(printed.contains("two files have the name x"), "{printed}");
        assert_eq!(sent.status.code(), Some(2));
    }
}

#[test]
fn names_are_printed_without_characters_that_change_the_display() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a\u{202e}gpj.exe");
    std::fs::write(&file, "x").unwrap();
    let into = dir.path().join("in");
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let sent = receiver.send(&file);
    let json = sender(&receiver.to(), &file).arg("--json").output_in_time();
    std::fs::write(&file, "another").unwrap();
    let again = receiver.send(&file);
    receiver.signal(Signal::SIGINT);
    let (_, out, err) = receiver.end();
    for printed in [&text(&sent.stdout), &text(&again.stderr), &out, &err] {
        assert!(printed.contains("a\\u{202e}gpj.exe"), "{printed:?}");
        assert!(!printed.contains('\u{202e}'), "{printed:?}");
    }
    assert_eq!(names(&into), ["a\u{202e}gpj.exe"]);
    assert!(!text(&json.stdout).contains('\u{202e}'));
}

/// The file of an incomplete transfer, once it has some content.
fn wait_for_partial(dir: &Path) -> PathBuf {
    let start = Instant::now();
    loop {
        if let Some(name) = names(dir).into_iter().find(|name| name.ends_with(".partial"))
            && std::fs::metadata(dir.join(&name)).is_ok_and(|file| file.len() > 20_000_000)
        {
            return dir.join(name);
        }
        assert!(start.elapsed() < Duration::from_secs(30), "the transfer does not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn start_sender(receiver: &Receiver, file: &Path) -> Child {
    sender(&receiver.to(), file).arg("--json").spawn().unwrap()
}

/// Where the data of the file began, as the sender says.
fn begin(sender: Child) -> u64 {
    let output = finish(sender);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    line["begin"].as_u64().unwrap()
}

/// A file that takes a while.
fn large_file(dir: &Path) -> PathBuf {
    let file = dir.join("large");
    let mut out = std::fs::File::create(&file).unwrap();
    let piece = content(1_000_003);
    for _ in 0..300 {
        out.write_all(&piece).unwrap();
    }
    file
}

fn same(a: &Path, b: &Path) -> bool {
    Command::new("cmp").arg(a).arg(b).status().unwrap().success()
}

#[test]
fn a_transfer_continues_after_the_receiver_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (large_file(dir.path()), dir.path().join("in"));
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let mut first = start_sender(&receiver, &file);
    wait_for_partial(&into);
    receiver.signal(Signal::SIGKILL);
    receiver.end();
    first.kill().unwrap();
    wait(&mut first);
    let have = std::fs::metadata(wait_for_partial(&into)).unwrap().len();

    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    assert_eq!(begin(start_sender(&receiver, &file)), have);
    assert_eq!(receiver.end().0, Some(0));
    assert!(same(&file, &into.join("large")));
    assert_eq!(names(&into), ["large"]);
}

#[test]
fn a_transfer_continues_after_the_sender_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (large_file(dir.path()), dir.path().join("in"));
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let mut first = start_sender(&receiver, &file);
    wait_for_partial(&into);
    signal(&first, Signal::SIGKILL);
    wait(&mut first);
    // The receiver does not know yet that the sender has gone.
    assert!(begin(start_sender(&receiver, &file)) > 20_000_000);
    assert!(same(&file, &into.join("large")));
    assert_eq!(names(&into), ["large"]);
    receiver.signal(Signal::SIGINT);
    let (_, _, err) = receiver.end();
    assert!(err.contains("another transfer continues the file"), "{err}");
}

#[test]
fn a_partial_file_with_other_content_is_not_continued() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (large_file(dir.path()), dir.path().join("in"));
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let mut first = start_sender(&receiver, &file);
    let partial = wait_for_partial(&into);
    receiver.signal(Signal::SIGKILL);
    receiver.end();
    first.kill().unwrap();
    wait(&mut first);
    let mut damaged = std::fs::File::options().write(true).open(partial).unwrap();
    damaged.write_all(b"damaged").unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    assert_eq!(begin(start_sender(&receiver, &file)), 0);
    assert_eq!(receiver.end().0, Some(0));
    assert!(same(&file, &into.join("large")));
}

#[test]
fn nonsense_arguments_have_exit_codes() {
    let run = |args: &[&str]| Command::new(WHIMBREL).args(args).output_in_time().status.code();
    assert_eq!(run(&["send", "--to", "127.0.0.1"]), Some(2));
    assert_eq!(run(&["send", "--to", "127.0.0.1", "--name", "../x", "-"]), Some(1));
    assert_eq!(run(&["send", "--to", "127.0.0.1", "/no/such/folder"]), Some(1));
}
