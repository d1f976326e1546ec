//! Options about the association.

use super::{InTime as _, Receiver, content, sender, text};

#[test]
fn fields_of_the_association_can_be_set_at_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, content(300_000)).unwrap();
    let options = [
        "--buffer",
        "64KiB",
        "--set",
        "rto_min=200 ms",
        "--set",
        "window.kind=cubic",
    ];
    let mut more = vec!["--once"];
    more.extend(options);
    let receiver = Receiver::start("127.0.0.1:0", &dir.path().join("in"), &more);
    let sent = sender(&receiver.to(), &file).args(options).output_in_time();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn reports_mistakes_in_settings() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, "x").unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["--set", "rto_mni=1 s"], "did you mean `rto_min`?"),
        (&["--set", "max_burst=many"], "max_burst"),
        (
            &["--set", "sack_delay=501 ms"],
            "sack_delay = 501 ms: allowed are 0 s to 500 ms",
        ),
        (&["--set", "max_burst"], "expected FIELD=VALUE"),
        (&["--buffer", "3 parsecs"], "is not a unit of size"),
    ];
    for (options, words) in cases {
        let sent = sender("127.0.0.1:9", &file).args(options).output_in_time();
        let printed = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(2), "{options:?}: {printed}");
        assert!(
            printed.contains("error: ") && printed.contains(words),
            "{options:?}: {printed}"
        );
    }
}

#[test]
fn a_file_larger_than_the_smallest_buffers_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, content(300_000)).unwrap();
    let smallest = ["--buffer", "64KiB"];
    let into = dir.path().join("in");
    let receiver = Receiver::start("127.0.0.1:0", &into, &smallest);
    let sent = sender(&receiver.to(), &file).args(smallest).output_in_time();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert!(std::fs::read(into.join("a")).unwrap() == content(300_000));
    for smaller in [
        &["--buffer", "65535"][..],
        &["--set", "send_buffer=16000"],
        &["--set", "recv_buffer=16000"],
    ] {
        let sent = sender(&receiver.to(), &file).args(smaller).output_in_time();
        let printed = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(2), "{printed}");
        assert!(printed.contains("64 KiB"), "{printed}");
    }
}
