//! Completions, man pages and lists as JSON.

use crate::support::{code, stderr, stdout, whimbrel};

#[test]
fn completions_know_every_command() {
    let dir = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = whimbrel(dir.path(), &["completions", shell]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = stdout(&output);
        for word in ["perf", "tunnel", "connect-timeout"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(code(&whimbrel(dir.path(), &["completions", "tcsh"])), 2);
}

#[test]
fn man_pages_are_written_for_every_command() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = whimbrel(dir.path(), &["man", "man1"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for (file, words) in [
        ("whimbrel.1", "whimbrel\\-send(1)"),
        ("whimbrel-perf.1", "in total and on each path"),
        ("whimbrel-tunnel.1", "\\-\\-forward"),
    ] {
        let text = std::fs::read_to_string(dir.path().join("man1").join(file)).expect(file);
        assert!(text.contains(words), "{file}: {text}");
    }
    let full = whimbrel(dir.path(), &["man", "/proc/no/such"]);
    assert_eq!(code(&full), 1);
    assert!(
        stderr(&full).contains("cannot write into /proc/no/such"),
        "{}",
        stderr(&full)
    );
}

#[test]
fn metrics_are_listed_as_json() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = stdout(&whimbrel(dir.path(), &["metrics", "--json"]));
    let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let metrics = list["metrics"].as_array().expect("a list");
    let goodput = metrics.iter().find(|metric| metric["name"] == "goodput_mbps");
    assert!(
        goodput.is_some_and(|metric| metric["definition"].as_str() > Some("")),
        "{text}"
    );
}
