//! Runs as many transfers at a time as the machine supports in real time.

use std::sync::{Condvar, Mutex, PoisonError};

use super::case::Run;

/// Goodput in Mbit/s that a processor can send, forward and receive in real time, with a reserve: unoptimised builds need about
/// 1 CPU second for 100 Mbit.
const MBPS_PER_PROCESSOR: f64 = if cfg!(debug_assertions) { 50.0 } else { 100.0 };
/// What a transfer costs beside its data.
const LEAST_COST: f64 = 5.0;

/// Runs all transfers, expensive ones first; `run` gets a number below the number of transfers.
pub(crate) fn run_all<V: Send>(mut runs: Vec<Run>, run: impl Fn(&Run) -> V + Sync) -> Vec<(Run, V)> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let capacity = MBPS_PER_PROCESSOR * processors as f64;
    runs.sort_by(|a, b| b.expected.total_cmp(&a.expected));
    (0..).zip(&mut runs).for_each(|(number, run)| run.number = number);
    let waiting = Mutex::new((runs, 0.0_f64));
    let freed = Condvar::new();
    let results = Mutex::new(Vec::new());
    let work = || loop {
        let (next, cost) = {
            let mut state = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let (waiting, used) = &mut *state;
                if waiting.is_empty() {
                    return;
                }
                let cost = |run: &Run| run.expected.max(LEAST_COST);
                let fits = |run: &Run| *used == 0.0 || *used + cost(run) <= capacity;
                if let Some(place) = waiting.iter().position(fits) {
                    let next = waiting.remove(place);
                    let cost = cost(&next);
                    *used += cost;
                    break (next, cost);
                }
                state = freed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let value = run(&next);
        results
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((next, value));
        waiting.lock().unwrap_or_else(PoisonError::into_inner).1 -= cost;
        freed.notify_all();
    };
    std::thread::scope(|scope| {
        for _ in 0..(capacity / LEAST_COST) as usize {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}
