//! Links that another program puts into the receiver's folder during a transfer.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::peer::{DATA, DONE, END, Peer, TRAILER, digest, header, message, partial};
use super::{Receiver, content, in_time, names, text};

const SIZE: usize = 100_000;

/// A folder for received files, and a file outside of it.
struct Folders {
    dir: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/victim"), "precious").unwrap();
        Folders { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn check(&self) {
        assert_eq!(names(&self.path("outside")), ["victim"]);
        assert_eq!(
            std::fs::read_to_string(self.path("outside/victim")).unwrap(),
            "precious"
        );
    }
}

/// Begins a file and sends half of it.
async fn begin(receiver: &Receiver, name: &str, asks: bool) -> Peer {
    let peer = Peer::connect(receiver).await;
    if asks {
        assert_eq!(peer.ask(name, SIZE as u64).await, 0);
    } else {
        peer.say(header(name, SIZE as u64, false)).await;
    }
    peer.say(message(DATA, &content(SIZE)[..SIZE / 4])).await;
    peer.say(message(DATA, &content(SIZE)[SIZE / 4..SIZE / 2])).await;
    peer
}

/// Sends the rest. Returns whether the receiver has taken the file, or why not.
async fn end(peer: Peer) -> Result<(), String> {
    peer.say(message(DATA, &content(SIZE)[SIZE / 2..3 * SIZE / 4])).await;
    peer.say(message(DATA, &content(SIZE)[3 * SIZE / 4..])).await;
    peer.say(digest(TRAILER, &content(SIZE))).await;
    peer.say(message(END, [0])).await;
    let (kind, data) = peer.hear().await;
    if kind == DONE { Ok(()) } else { Err(text(&data)) }
}

/// Waits until there is something, in a file or a folder.
async fn wait_for(path: &Path) {
    let waiting = async {
        while !std::fs::metadata(path).is_ok_and(|found| found.len() > 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    in_time(waiting).await;
}

#[tokio::test]
async fn a_folder_that_a_link_replaces_is_not_left() {
    for force in [false, true] {
        for asks in [false, true] {
            let folders = Folders::new();
            let options: &[&str] = if force { &["--force"] } else { &[] };
            let receiver = Receiver::start("127.0.0.1:0", &folders.path("in"), options);
            let peer = begin(&receiver, "q/r/f", asks).await;
            wait_for(&folders.path("in/q/r")).await;
            std::fs::rename(folders.path("in/q"), folders.path("in/old")).unwrap();
            symlink(folders.path("outside"), folders.path("in/q")).unwrap();
            std::fs::create_dir(folders.path("outside/r")).unwrap();
            end(peer).await.unwrap();
            std::fs::remove_dir(folders.path("outside/r")).unwrap();
            folders.check();
            // The file is where the folder is now.
            assert!(std::fs::read(folders.path("in/old/r/f")).unwrap() == content(SIZE));
            // A link that was there before leads nowhere.
            let peer = Peer::connect(&receiver).await;
            peer.say(header("q/f", 1, false)).await;
            let why = peer.refusal().await;
            assert!(why.contains("q is there already and is not a folder"), "{why}");
            folders.check();
        }
    }
}

#[tokio::test]
async fn a_partial_file_that_a_link_replaces_is_neither_written_through_nor_given_the_name() {
    for force in [false, true] {
        let folders = Folders::new();
        let options: &[&str] = if force { &["--force"] } else { &[] };
        let receiver = Receiver::start("127.0.0.1:0", &folders.path("in"), options);
        let peer = begin(&receiver, "f", true).await;
        let part = partial(&folders.path("in"), "f", SIZE as u64);
        wait_for(&part).await;
        std::fs::remove_file(&part).unwrap();
        symlink(folders.path("outside/victim"), &part).unwrap();
        let why = end(peer).await.unwrap_err();
        assert!(why.contains("another program has removed or replaced it"), "{why}");
        folders.check();
        // The link stays: it is not this program's.
        assert!(part.is_symlink());
        assert_eq!(names(&folders.path("in")).len(), 1);
        // Nothing is continued through it.
        let peer = begin(&receiver, "f", true).await;
        end(peer).await.unwrap();
        assert!(std::fs::read(folders.path("in/f")).unwrap() == content(SIZE));
        assert!(!folders.path("in/f").is_symlink());
        folders.check();
    }
}

#[tokio::test]
async fn a_link_or_a_pipe_at_the_name_of_the_file_is_replaced_and_never_read() {
    let folders = Folders::new();
    let receiver = Receiver::start("127.0.0.1:0", &folders.path("in"), &["--force"]);
    let victim = "precious".len() as u64;
    let pipe = folders.path("in/pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink(folders.path("outside/victim"), folders.path("in/link")).unwrap();
    for name in ["link", "pipe"] {
        // The receiver would say that it has all of it.
        let peer = Peer::connect(&receiver).await;
        assert_eq!(peer.ask(name, victim).await, 0);
        peer.say(message(DATA, "replaced")).await;
        peer.say(digest(TRAILER, b"replaced")).await;
        assert_eq!(peer.hear().await.0, DONE);
        let path = folders.path("in").join(name);
        assert!(!path.is_symlink());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "replaced");
        folders.check();
    }
}
