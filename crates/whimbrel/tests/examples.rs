//! The examples, run in this process.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "../examples/echo.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod echo;
#[cfg(target_os = "linux")]
#[path = "../examples/failover.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod failover;
#[cfg(target_os = "linux")]
#[path = "../examples/multipath.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod multipath;

#[path = "../examples/replicated_log/main.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod replicated_log;

use std::time::Duration;

use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn echo_returns_what_was_sent() {
    let answers = timeout(PATIENCE, echo::run()).await.unwrap().unwrap();
    assert_eq!(answers, ["one", "two", "three"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn failover_delivers_everything_and_reports_the_path() {
    use whimbrel::PathChange;

    let (received, events) = timeout(PATIENCE, failover::run()).await.unwrap().unwrap();
    assert_eq!(received, 200);
    let of = |change| {
        events
            .iter()
            .filter(move |event| event.change == change)
            .collect::<Vec<_>>()
    };
    let (down, primary) = (of(PathChange::Down), of(PathChange::PrimaryChanged));
    assert_eq!((down.len(), primary.len()), (1, 1), "{events:?}");
    assert_eq!(down[0].remote.ip().to_string(), "127.0.0.2");
    assert_eq!(primary[0].remote.ip().to_string(), "127.0.0.1");
    assert!(events.is_sorted_by_key(|event| event.time));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn multipath_delivers_over_both_paths() {
    let (received, paths) = timeout(PATIENCE, multipath::run()).await.unwrap().unwrap();
    assert_eq!(received, 400 * 16 * 1024);
    assert_eq!(paths.len(), 2);
    // A path that carries data measures its round-trip time with it; heartbeats come every 30 s.
    assert!(paths.iter().all(|path| path.srtt.is_some()), "{paths:?}");
}

#[test]
fn replicated_log_survives_outages_and_crashes_and_the_mistake_is_found() {
    let scenario = whimbrel::simulated::Scenario::from_text("network.toml", replicated_log::NETWORK).unwrap();
    let mut found = None;
    for seed in 0..100 {
        let outcome = replicated_log::run(&scenario, seed, false, false);
        assert!(outcome.is_ok(), "{outcome:?}");
        if let Err(error) = replicated_log::run(&scenario, seed, true, false) {
            found.get_or_insert((seed, error.to_string()));
        }
    }
    let (seed, error) = found.unwrap();
    assert!(error.contains("on 1 disk only"), "{error}");
    // The seed alone repeats it.
    let again = replicated_log::run(&scenario, seed, true, false).unwrap_err();
    assert_eq!(again.to_string(), error);
}
