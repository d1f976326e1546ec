//! Compares the emulator with the simulator: `send` and `recv` through `emulate` reach the simulated goodput of the same scenario
//! file.
//!
//! By default a selection runs that a busy machine of two processors can do within a minute or two. `WHIMBREL_FIDELITY=full` runs all
//! cases, which needs an idle machine; other values select those with that part in their names, such as `cubic-40ms` or `100Mbit-0%`.
//! `WHIMBREL_FIDELITY=long` sends 1 GB over 1 Gbit/s and 100 ms, which needs an optimised build as well.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "fidelity"]
mod fidelity {
    pub(super) mod case;
    pub(super) mod live;
    pub(super) mod schedule;
}

use fidelity::case::{Case, Plan, all, long};
use fidelity::live::{Live, Verdict};

#[test]
fn live_goodput_matches_the_simulation() {
    let asked = std::env::var("WHIMBREL_FIDELITY").ok();
    let is_asked = |case: &Case| match asked.as_deref() {
        None => case.is_default(),
        Some("full" | "long") => true,
        Some(part) => case.name().contains(part),
    };
    let known = if asked.as_deref() == Some("long") {
        long()
    } else {
        all()
    };
    let cases: Vec<Case> = known.into_iter().filter(is_asked).collect();
    assert!(!cases.is_empty(), "no case is called {asked:?}");
    let plans: Vec<_> = cases.iter().map(|case| case.plan()).collect();
    let first = measure(&plans.iter().collect::<Vec<_>>());
    // Another program that uses the processors for a moment costs a flow one loss, and a flow that has just begun half of its goodput. It does
    // not come twice; a difference between the drivers does.
    let differing = first.into_iter().filter(|(_, agrees)| !agrees);
    let again = differing.flat_map(|(plan, _)| measure(&[plan]));
    let wrong = again.filter(|(_, agrees)| !agrees).count();
    assert_eq!(
        wrong, 0,
        "cases in which live and simulated goodput differ, also when repeated alone"
    );
}

/// Runs cases live, as many at a time as the machine supports. Returns whether each agrees with its simulation.
fn measure<'p>(plans: &[&'p Plan]) -> Vec<(&'p Plan, bool)> {
    let dir = tempfile::tempdir().unwrap();
    let runs = plans.iter().flat_map(|plan| plan.runs()).collect();
    let results = fidelity::schedule::run_all(runs, |run| Live::run(dir.path(), run));
    let mut outcomes = Vec::new();
    for plan in plans {
        let of_case = results.iter().filter(|(run, _)| run.case == plan.case);
        let (mut live, mut slow) = (Vec::new(), None);
        for (_, verdict) in of_case {
            match verdict {
                Verdict::Done(goodput) => live.push(*goodput),
                Verdict::TooSlow(why) => slow = Some(why.clone()),
            }
        }
        if let Some(why) = slow {
            let reason = format!("{}: machine too slow: {why}", plan.case.name());
            whimbrel_testkit::not_run_in_part(module_path!(), &reason);
            continue;
        }
        let outcome = plan.compare(&live);
        println!("{outcome}");
        outcomes.push((*plan, outcome.agrees));
    }
    outcomes
}
