//! What a receiver keeps of an incomplete file, and what it discards.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::Signal;
use whimbrel_testkit::{needs, program};

use super::peer::{CANCEL, DATA, DONE, FROM, PREFIX, Peer, TRAILER, digest, header, message, partial};
use super::{InTime as _, Receiver, content, names, sender, text};

const SIZE: u64 = 1_000_000;
const HAVE: usize = 400_000;

/// What an earlier transfer of the file `a` has left.
fn leave_partial(into: &Path) -> std::path::PathBuf {
    std::fs::create_dir_all(into).unwrap();
    let path = partial(into, "a", SIZE);
    std::fs::write(&path, &content(SIZE as usize)[..HAVE]).unwrap();
    path
}

/// Sends the file `a` and returns where its data began.
fn begin(dir: &Path, receiver: &Receiver) -> u64 {
    let file = dir.join("a");
    std::fs::write(&file, content(SIZE as usize)).unwrap();
    let sent = sender(&receiver.to(), &file).arg("--json").output_in_time();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let line: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    line["begin"].as_u64().unwrap()
}

/// Waits until the receiver has reported the end of a transfer.
fn wait_for_end(receiver: &mut Receiver) {
    receiver.errors.after("error: transfer from ");
}

#[tokio::test]
async fn content_survives_peers_that_ask_for_it_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    let left = leave_partial(&into);
    let mut receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    // It learns what there is and goes; it says nonsense; it agrees and goes; it agrees and sends too much.
    let peer = Peer::connect(&receiver).await;
    assert_eq!(peer.ask("a", SIZE).await, HAVE as u64);
    peer.abort("gone").await;
    wait_for_end(&mut receiver);
    assert!(left.exists(), "after Have");

    let peer = Peer::connect(&receiver).await;
    peer.ask("a", SIZE).await;
    peer.say(message(DATA, "x")).await;
    let why = peer.refusal().await;
    assert!(why.contains("did not say what its file begins with"), "{why}");
    wait_for_end(&mut receiver);
    assert!(left.exists(), "after nonsense");

    let peer = Peer::connect(&receiver).await;
    peer.agree("a", SIZE, &content(HAVE)).await;
    peer.abort("gone").await;
    wait_for_end(&mut receiver);
    assert!(left.exists(), "after From");

    let peer = Peer::connect(&receiver).await;
    peer.agree("a", SIZE, &content(HAVE)).await;
    peer.say(digest(TRAILER, b"")).await;
    let why = peer.refusal().await;
    assert!(why.contains("600000 bytes fewer than it announced"), "{why}");
    wait_for_end(&mut receiver);

    assert_eq!(begin(dir.path(), &receiver), HAVE as u64);
    assert!(std::fs::read(into.join("a")).unwrap() == content(SIZE as usize));
    assert_eq!(names(&into), ["a"]);
}

#[tokio::test]
async fn content_survives_a_disk_that_has_no_room_for_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    std::fs::create_dir(&into).unwrap();
    let left = partial(&into, "huge", 1 << 60);
    std::fs::write(&left, content(HAVE)).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let peer = Peer::connect(&receiver).await;
    peer.say(header("huge", 1 << 60, true)).await;
    let why = peer.refusal().await;
    assert!(why.contains("the disk has room for"), "{why}");
    assert!(std::fs::read(&left).unwrap() == content(HAVE));
}

#[tokio::test]
async fn content_is_discarded_when_it_is_cancelled_or_has_another_digest() {
    for cancels in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let left = leave_partial(dir.path());
        let mut receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
        let peer = Peer::connect(&receiver).await;
        peer.agree("a", SIZE, &content(HAVE)).await;
        if cancels {
            peer.say(message(CANCEL, [0])).await;
        } else {
            for piece in vec![7; SIZE as usize - HAVE].chunks(30_000) {
                peer.say(message(DATA, piece)).await;
            }
            peer.say(digest(TRAILER, b"another")).await;
        }
        let why = peer.refusal().await;
        let expected = if cancels {
            "the sender gave up"
        } else {
            "digest of a is"
        };
        assert!(why.contains(expected), "{why}");
        wait_for_end(&mut receiver);
        assert!(!left.exists(), "{why}");
    }
}

#[tokio::test]
async fn content_of_an_earlier_transfer_is_discarded_after_ctrl_c() {
    let dir = tempfile::tempdir().unwrap();
    leave_partial(dir.path());
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let peer = Peer::connect(&receiver).await;
    peer.agree("a", SIZE, &content(HAVE)).await;
    receiver.signal(Signal::SIGINT);
    assert!(peer.refusal().await.contains("the receiver was interrupted"));
    assert_eq!(receiver.end().0, Some(130));
    assert_eq!(names(dir.path()), [""; 0]);
}

#[tokio::test]
async fn an_abort_of_a_sender_that_gave_up_discards_the_content() {
    let dir = tempfile::tempdir().unwrap();
    let left = leave_partial(dir.path());
    let mut receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    for (reason, keeps) in [("some reason", true), ("the sender gave up", false)] {
        let peer = Peer::connect(&receiver).await;
        peer.agree("a", SIZE, &content(HAVE)).await;
        peer.abort(reason).await;
        wait_for_end(&mut receiver);
        assert_eq!(left.exists(), keeps, "{reason}");
    }
}

#[tokio::test]
async fn content_is_kept_when_it_cannot_have_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    let mut receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let peer = Peer::connect(&receiver).await;
    assert_eq!(peer.ask("a", SIZE).await, 0);
    let whole = content(SIZE as usize);
    for piece in whole.chunks(30_000) {
        peer.say(message(DATA, piece)).await;
    }
    // Meanwhile there is something else of this name.
    std::fs::create_dir(into.join("a")).unwrap();
    peer.say(digest(TRAILER, &whole)).await;
    let why = peer.refusal().await;
    assert!(why.contains("a exists already"), "{why}");
    wait_for_end(&mut receiver);
    std::fs::remove_dir(into.join("a")).unwrap();
    assert_eq!(begin(dir.path(), &receiver), SIZE);
    assert_eq!(names(&into), ["a"]);
}

#[test]
fn a_complete_file_gets_its_name_by_a_rename() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    leave_partial(&into);
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    let watch = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    let what = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
    watch.add_watch(&into, what).unwrap();
    assert_eq!(begin(dir.path(), &receiver), HAVE as u64);
    assert_eq!(receiver.end().0, Some(0));
    // FAT and exFAT have no hard links.
    let events: Vec<_> = watch.read_events().unwrap();
    let of_file: Vec<_> = events
        .iter()
        .filter(|event| event.name.as_deref() == Some("a".as_ref()))
        .map(|event| event.mask)
        .collect();
    assert_eq!(of_file, [AddWatchFlags::IN_MOVED_TO]);
}

#[test]
fn a_partial_file_that_is_a_link_to_a_complete_file_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    std::fs::create_dir(&into).unwrap();
    // A receiver was killed between link and unlink; then the file got another name.
    let other = vec![7; SIZE as usize];
    std::fs::write(into.join("elsewhere"), &other).unwrap();
    std::fs::hard_link(into.join("elsewhere"), partial(&into, "a", SIZE)).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    assert_eq!(begin(dir.path(), &receiver), 0);
    assert_eq!(receiver.end().0, Some(0));
    assert!(std::fs::read(into.join("elsewhere")).unwrap() == other);
    assert!(std::fs::read(into.join("a")).unwrap() == content(SIZE as usize));
}

/// Bytes that a process has read.
fn bytes_read(receiver: &Receiver) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", receiver.child.id())).unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

/// Waits until a process reads.
async fn wait_for_reading(receiver: &Receiver) {
    let (start, before) = (Instant::now(), bytes_read(receiver));
    while bytes_read(receiver) < before + 10_000_000 {
        assert!(start.elapsed() < Duration::from_secs(30), "it reads nothing");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A file that it takes minutes to read.
fn endless(path: &Path) -> u64 {
    let size = 1 << 40;
    File::create(path).unwrap().set_len(size).unwrap();
    size
}

#[tokio::test]
async fn hashing_ends_with_the_association() {
    let dir = tempfile::tempdir().unwrap();
    let size = endless(&partial(dir.path(), "a", (1 << 40) + 1)) + 1;
    endless(&dir.path().join("complete"));
    let mut receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    for (name, size) in [("a", size), ("complete", 1 << 40)] {
        let peer = Peer::connect(&receiver).await;
        peer.say(header(name, size, true)).await;
        wait_for_reading(&receiver).await;
        peer.abort("gone").await;
        wait_for_end(&mut receiver);
        // The current block may have to be read to its end.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = bytes_read(&receiver);
        tokio::time::sleep(Duration::from_millis(1000)).await;
        let read = bytes_read(&receiver) - before;
        assert!(read < 1_000_000, "{name}: {read} bytes after the end");
    }
    assert!(partial(dir.path(), "a", size).exists());
}

#[tokio::test]
async fn few_files_are_hashed_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let mut peers = Vec::new();
    for number in 0..8 {
        let name = format!("complete-{number}");
        let size = endless(&dir.path().join(&name));
        let peer = Peer::connect(&receiver).await;
        peer.say(header(&name, size, true)).await;
        peers.push(peer);
    }
    wait_for_reading(&receiver).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let open = || {
        std::fs::read_dir(format!("/proc/{}/fd", receiver.child.id()))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .filter(|path| path.to_string_lossy().contains("/complete-"))
            .count()
    };
    assert!((1..=4).contains(&open()), "{} files", open());
    // Those that waited are served once others have gone.
    let last = peers.pop().unwrap();
    for peer in peers {
        peer.abort("gone").await;
    }
    let start = Instant::now();
    while open() != 1 {
        assert!(start.elapsed() < Duration::from_secs(20), "{} files", open());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    wait_for_reading(&receiver).await;
    last.abort("gone").await;
}

/// A receiver answers `From(0)` to a wrong digest: the file starts again.
#[tokio::test]
async fn content_is_replaced_when_the_transfer_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    let left = leave_partial(dir.path());
    let mut receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let peer = Peer::connect(&receiver).await;
    peer.ask("a", SIZE).await;
    peer.say(digest(PREFIX, b"another")).await;
    assert_eq!(peer.hear().await, (FROM, vec![0; 8]));
    peer.say(message(DATA, "new")).await;
    peer.say(digest(TRAILER, b"new")).await;
    assert!(peer.refusal().await.contains("fewer than it announced"));
    wait_for_end(&mut receiver);
    assert!(!left.exists());
}

#[tokio::test]
async fn a_transfer_whose_sender_answers_is_not_ended_by_another_of_the_same_name() {
    let dir = tempfile::tempdir().unwrap();
    leave_partial(dir.path());
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let slow = Peer::connect(&receiver).await;
    slow.agree("a", SIZE, &content(HAVE)).await;
    // It sends nothing for a while, but its end of the association works.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let other = Peer::connect(&receiver).await;
    assert_eq!(other.ask("a", SIZE).await, 0, "the first one has the file");
    for piece in content(SIZE as usize)[HAVE..].chunks(30_000) {
        slow.say(message(DATA, piece)).await;
    }
    slow.say(digest(TRAILER, &content(SIZE as usize))).await;
    assert_eq!(slow.hear().await.0, DONE);
    assert!(std::fs::read(dir.path().join("a")).unwrap() == content(SIZE as usize));
}

/// A receiver for which the file `a`, which has no permissions, is unreadable: root can read all files.
fn receiver_of_a_user(dir: &Path, options: &[&str]) -> Result<Receiver, String> {
    if File::open(dir.join("a")).is_err() {
        return Ok(Receiver::start(
            "127.0.0.1:0",
            dir,
            &[&["--insecure"], options].concat(),
        ));
    }
    let setpriv = program("setpriv", "util-linux")?;
    // The user may not be able to read the folder of the build.
    let copy = dir.with_file_name("whimbrel");
    std::fs::copy(super::WHIMBREL, &copy).unwrap();
    for path in [dir.parent().unwrap(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::chown(dir, Some(65534), Some(65534)).unwrap();
    let mut command = std::process::Command::new(setpriv);
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(copy);
    // It has no identity that the sender trusts.
    command
        .args(["recv", "--insecure", "--listen", "127.0.0.1:0"])
        .arg(dir)
        .args(options);
    Ok(Receiver::spawn(command))
}

#[test]
fn an_existing_file_that_cannot_be_read_is_replaced_if_that_is_forced() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    std::fs::create_dir(&into).unwrap();
    let there = into.join("a");
    std::fs::write(&there, vec![7; SIZE as usize]).unwrap();
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o000)).unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, content(SIZE as usize)).unwrap();

    let receiver = needs!(receiver_of_a_user(&into, &[]));
    let sent = sender(&receiver.to(), &file).arg("--insecure").output_in_time();
    assert_eq!(sent.status.code(), Some(1));
    assert!(text(&sent.stderr).contains("cannot read a: "), "{}", text(&sent.stderr));
    drop(receiver);

    let receiver = needs!(receiver_of_a_user(&into, &["--force"]));
    let sent = sender(&receiver.to(), &file).arg("--insecure").output_in_time();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert!(std::fs::read(&there).unwrap() == content(SIZE as usize));
}
