//! Partial files.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::peer::header;
use super::{Receiver, answer_to, names, sender, wait};

/// Waits for a partial file of some size.
pub(crate) fn wait_for_part(dir: &Path) -> String {
    let start = Instant::now();
    loop {
        if let Some(name) = names(dir).into_iter().find(|name| name.contains(".part"))
            && std::fs::metadata(dir.join(&name)).is_ok_and(|file| file.len() > 0)
        {
            return name;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the transfer does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_next_receiver_removes_files_of_a_killed_one_that_cannot_be_continued() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    // Standard input has no size; what has arrived of it is of no use later.
    let endless = std::fs::File::open("/dev/zero").unwrap();
    let mut first = sender(&receiver.to(), Path::new("-")).stdin(endless).spawn().unwrap();
    let part = wait_for_part(&into);
    // A second receiver in the same folder keeps the file while the first one is running.
    let second = Receiver::start("127.0.0.1:0", &into, &[]);
    assert!(names(&into).contains(&part));
    second.signal(Signal::SIGINT);
    second.end();

    receiver.signal(Signal::SIGKILL);
    receiver.end();
    assert!(names(&into).contains(&part), "it was killed");
    first.kill().unwrap();
    wait(&mut first);
    std::fs::write(into.join(".whimbrel-note"), "not ours to remove").unwrap();
    let third = Receiver::start("127.0.0.1:0", &into, &[]);
    assert_eq!(names(&into), [".whimbrel-note"]);
    third.signal(Signal::SIGINT);
    third.end();
}

#[tokio::test]
async fn a_file_larger_than_the_disk_is_refused_before_the_transfer() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let answer = answer_to(&receiver.addrs, vec![header("huge", 1 << 60, false)]).await;
    assert!(
        answer.contains("cannot write huge: it has 1152921504606846976 bytes, and the disk has room for"),
        "{answer}"
    );
    assert_eq!(names(dir.path()), Vec::<String>::new());
}
