//! Compares the emulator with the simulator: `send` and `recv` through `emulate` reach the simulated goodput of the same scenario
//! file.
//!
//! A sixth of the cases takes one minute. `WHIMBREL_FIDELITY=all` runs all of them (`.ci/nightly`).
//! `WHIMBREL_FIDELITY=PART` runs only the cases with that part in their names, such as `cubic-40ms` or `100Mbit-0%`.
//! `WHIMBREL_FIDELITY=long` sends 1 GB over 1 Gbit/s and 100 ms, which needs an optimised build and an idle machine.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "fidelity"]
mod fidelity {
    pub(super) mod case;
    pub(super) mod live;
    pub(super) mod schedule;
    pub(super) mod usage;
}

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fidelity::case::{Case, Plan, all, long, sixth};
use fidelity::live::{Live, Verdict};
use fidelity::usage::Usage;

/// A case that differs is repeated alone so often.
const ATTEMPTS: u32 = 4;
/// Number of these in which the machine must have been quiet for the case to fail.
const QUIET: u32 = 2;
/// Share of the processors that other programs use on a quiet machine, at most.
const OTHERS: f64 = 0.03;
/// The number of cases for each one in which chance may decide about more than 5 % of the goodput.
const MOST_WIDE: usize = 4;

#[test]
fn live_goodput_matches_the_simulation() {
    let asked = std::env::var("WHIMBREL_FIDELITY").ok();
    let cases: Vec<Case> = match asked.as_deref() {
        None => sixth(),
        Some("all") => all(),
        Some("long") => long(),
        Some(part) => all().into_iter().filter(|case| case.name().contains(part)).collect(),
    };
    assert!(!cases.is_empty(), "no case is called {asked:?}");
    let plans = plan(&cases);
    let wide = plans.iter().filter(|plan| plan.is_wide()).count();
    println!("wide ranges: {wide} of {}", plans.len());
    if matches!(asked.as_deref(), None | Some("all")) {
        assert!(
            wide * MOST_WIDE <= plans.len(),
            "{wide} of {} cases have wide ranges and show little",
            plans.len()
        );
    }
    let first = measure(&plans.iter().collect::<Vec<_>>());
    let differing = first.into_iter().filter(|(_, agrees)| !agrees);
    let wrong = differing.filter(|(plan, _)| differs_alone(plan)).count();
    assert_eq!(
        wrong, 0,
        "cases in which live and simulated goodput differ, also when repeated alone"
    );
}

#[test]
fn a_sixth_of_the_cases_has_two_of_each_scheme_and_no_path_twice() {
    let sixth = sixth();
    assert_eq!(sixth.len() * 6, all().len());
    for case in &sixth {
        let is_like =
            |other: &&Case| (other.rtt_ms, other.rate_mbps, other.loss) == (case.rtt_ms, case.rate_mbps, case.loss);
        assert_eq!(sixth.iter().filter(is_like).count(), 1, "{}", case.name());
        assert_eq!(sixth.iter().filter(|other| other.scheme == case.scheme).count(), 2);
    }
}

/// Repeats a case alone; returns whether it differs whenever it has the processors for itself.
///
/// Another program that uses the processors for a moment delays packets, which looks like a queue: slow start ends early (RFC 9406), or a flow
/// that has just begun loses half of its goodput.
fn differs_alone(plan: &Plan) -> bool {
    let (mut quiet, mut others) = (0, 0.0_f64);
    for _ in 0..ATTEMPTS {
        let usage = Usage::now();
        let Some(&(_, agrees)) = measure(&[plan]).first() else {
            return false;
        };
        if agrees {
            return false;
        }
        let now = usage.others();
        others = others.max(now);
        quiet += u32::from(now <= OTHERS);
    }
    if quiet >= QUIET {
        return true;
    }
    let percent = others * 100.0;
    let reason = format!(
        "{}: other programs used up to {percent:.0} % of the processors",
        plan.case.name()
    );
    whimbrel_testkit::not_run_in_part(module_path!(), &reason);
    false
}

/// Chooses the length of each transfer and simulates it, on all processors.
fn plan(cases: &[Case]) -> Vec<Plan> {
    let (next, plans) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((number, case)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, cases.get(n)?)))
        {
            let plan = case.plan();
            plans.lock().unwrap().insert(number, plan);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    plans.into_inner().unwrap().into_values().collect()
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
