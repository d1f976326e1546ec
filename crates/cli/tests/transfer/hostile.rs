//! Peers that say what they should not.

use std::path::Path;
use std::time::Duration;

use whimbrel::Message;

use super::peer::{
    CANCEL, DATA, DONE, END, FROM, HAVE, HEADER, PREFIX, Peer, TRAILER, digest, end_of, header, message, number,
    partial,
};
use super::{Receiver, answer_to, content, names};

const SIZE: u64 = 1_000_000;
const LEFT: usize = 400_000;

#[tokio::test]
async fn a_hostile_sender_cannot_leave_the_folder_or_lie_about_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let header = |name: &str, size: u64| header(name, size, false);
    let data = |len: usize| message(DATA, vec![7; len]);
    let trailer = || message(TRAILER, vec![7; 32]);
    let cases = [
        (vec![header("../evil", 1)], "it names no file"),
        (vec![header("a/../../evil", 1)], "it names no file"),
        (vec![header("..\\evil", 1)], "it contains a folder"),
        (
            vec![header("/tmp/evil", 1)],
            "it does not begin in the folder of the receiver",
        ),
        (vec![header("..", 1)], "it names no file"),
        (
            vec![header(".whimbrel-1.partial", 1)],
            "it begins as the names of partial files do",
        ),
        (
            vec![header(".Whimbrel-1/a", 1)],
            "it begins as the names of partial files do",
        ),
        (vec![data(10)], "did not begin with a header"),
        (vec![header("a", 5), data(10)], "more than the 5 bytes it announced"),
        (
            vec![header("a", 10), data(5), trailer()],
            "5 bytes fewer than it announced",
        ),
        (vec![header("a", 10), data(10), trailer()], "digest of a is"),
        (vec![Message::new(0, "GET / HTTP/1.1")], "a message of another protocol"),
        (vec![message(HEADER, [2, 1])], "a header that is too short"),
    ];
    for (messages, words) in cases {
        let answer = answer_to(&receiver.addrs, messages).await;
        assert!(answer.contains(words), "{answer:?} instead of {words:?}");
    }
    // Messages of the resume protocol that nothing has asked for.
    let unasked = [
        number(HAVE, 3),
        number(FROM, 3),
        digest(PREFIX, b""),
        message(DONE, [0]),
        message(END, [0]),
        header("b", 1),
    ];
    for message in unasked {
        let ppid = message.ppid;
        let answer = answer_to(&receiver.addrs, vec![header("a", 10), message]).await;
        assert!(answer.contains("something else than data"), "{ppid:x}: {answer:?}");
    }
    for message in [
        number(HAVE, 3),
        number(FROM, 3),
        digest(PREFIX, b""),
        message(DONE, [0]),
    ] {
        let ppid = message.ppid;
        let answer = answer_to(&receiver.addrs, vec![message]).await;
        assert!(answer.contains("did not begin with a header"), "{ppid:x}: {answer:?}");
    }
    assert_eq!(names(&into), Vec::<String>::new());
    assert_eq!(names(dir.path()), ["in"]);
}

/// Says these messages once the receiver has said how much it has of `a`. Returns why it refuses.
async fn after_have(receiver: &Receiver, have: u64, messages: Vec<Message>) -> String {
    let peer = Peer::connect(receiver).await;
    assert_eq!(peer.ask("a", SIZE).await, have);
    for message in messages {
        peer.say(message).await;
    }
    peer.refusal().await
}

#[tokio::test]
async fn a_sender_that_breaks_the_rules_of_resuming_is_refused_and_what_there_was_stays() {
    let dir = tempfile::tempdir().unwrap();
    let left = partial(dir.path(), "a", SIZE);
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let begins = content(LEFT);
    let agreed = || digest(PREFIX, &begins);
    let no_prefix = "did not say what its file begins with";
    let no_data = "something else than data";
    let cases = [
        (vec![message(DATA, "x")], no_prefix),
        (vec![number(HAVE, 3)], no_prefix),
        (vec![number(FROM, 0)], no_prefix),
        (vec![header("a", SIZE, true)], no_prefix),
        (vec![digest(TRAILER, b"")], no_prefix),
        (vec![message(END, [0])], no_prefix),
        (vec![message(PREFIX, [1, 2, 3])], "a digest of another length"),
        (vec![number(DONE, 0)], no_prefix),
        (vec![agreed(), agreed()], no_data),
        (vec![agreed(), number(FROM, 0)], no_data),
        (vec![agreed(), number(HAVE, 0)], no_data),
        (vec![agreed(), header("b", SIZE, true)], no_data),
        (vec![agreed(), message(END, [0])], no_data),
        (vec![agreed(), digest(TRAILER, &begins)], "600000 bytes fewer"),
    ];
    std::fs::write(&left, &begins).unwrap();
    for (messages, words) in cases {
        let kinds: Vec<u32> = messages.iter().map(|message| message.ppid - HEADER).collect();
        let why = after_have(&receiver, LEFT as u64, messages).await;
        assert!(why.contains(words), "{kinds:?}: {why:?} instead of {words:?}");
        // The receiver lets go of the file before it refuses.
        assert!(std::fs::read(&left).unwrap() == begins, "{kinds:?}");
    }
    assert_eq!(names(dir.path()).len(), 1);
}

#[tokio::test]
async fn a_sender_that_says_more_of_a_complete_file_does_not_change_it() {
    let dir = tempfile::tempdir().unwrap();
    let whole = content(SIZE as usize);
    std::fs::write(dir.path().join("a"), &whole).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &["--force"]);
    let agreed = || digest(PREFIX, &whole);
    let cases = [
        (vec![agreed(), message(DATA, "x")], "more than it announced"),
        (vec![agreed(), digest(TRAILER, b"x")], "digest of a is"),
        (vec![agreed(), number(FROM, 0)], "more than it announced"),
        (vec![agreed(), message(CANCEL, [0])], "the sender gave up"),
        (vec![message(DATA, "x")], "did not say what its file begins with"),
        (vec![message(CANCEL, [0])], "the sender gave up"),
    ];
    for (messages, words) in cases {
        let why = after_have(&receiver, SIZE, messages).await;
        assert!(why.contains(words), "{why:?} instead of {words:?}");
        assert!(std::fs::read(dir.path().join("a")).unwrap() == whole, "{words}");
    }
    assert_eq!(names(dir.path()), ["a"]);
}

#[tokio::test]
async fn a_sender_that_does_not_wait_for_the_answer_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let left = partial(dir.path(), "a", 1 << 40);
    // It takes minutes to hash.
    let file = std::fs::File::create(&left).unwrap();
    file.set_len((1 << 40) - 1).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let peer = Peer::connect(&receiver).await;
    peer.say(header("a", 1 << 40, true)).await;
    peer.say(digest(PREFIX, b"")).await;
    let why = peer.refusal().await;
    assert!(why.contains("did not wait for an answer"), "{why}");
    assert!(left.exists());
}

/// Answers the header of a file with these messages, the second one after the sender's next message. Returns how the sender ends.
async fn answered(file: &Path, answers: Vec<Message>) -> (Option<i32>, String) {
    let (peer, child) = Peer::accept(file).await;
    for answer in answers {
        assert!([HEADER, PREFIX].contains(&peer.hear().await.0));
        peer.say(answer).await;
    }
    let association = peer.association.clone();
    // It has to be read from, or the sender cannot end in good order.
    let reading = tokio::spawn(async move { while let Ok(Some(_)) = association.recv().await {} });
    let end = end_of(child).await;
    let _ = tokio::time::timeout(Duration::from_secs(5), reading).await;
    end
}

#[tokio::test]
async fn a_hostile_receiver_is_refused_in_every_state() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, content(SIZE as usize)).unwrap();
    let not_asked = "the receiver answered what was not asked";
    let cases = [
        (vec![number(HAVE, SIZE + 1)], not_asked),
        (vec![number(HAVE, u64::MAX)], not_asked),
        (vec![number(FROM, 0)], not_asked),
        (vec![message(HAVE, [1])], "a number of another length"),
        (vec![message(DONE, [0])], "confirmed a file before it was sent"),
        (
            vec![digest(PREFIX, b"")],
            "the receiver sent a message that only a sender may send",
        ),
        (vec![number(HAVE, 1000), number(HAVE, 1000)], not_asked),
        (vec![number(HAVE, 1000), number(FROM, 999)], not_asked),
        (vec![number(HAVE, 1000), number(FROM, 1001)], not_asked),
        (
            vec![number(HAVE, 1000), message(DONE, [0])],
            "confirmed a file before it was sent",
        ),
    ];
    for (answers, words) in cases {
        let kinds: Vec<u32> = answers.iter().map(|message| message.ppid - HEADER).collect();
        let (code, err) = answered(&file, answers).await;
        assert_eq!(code, Some(1), "{kinds:?}: {err}");
        assert!(err.contains(words), "{kinds:?}: {err:?} instead of {words:?}");
    }
}
