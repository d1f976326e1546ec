//! Runs an asynchronous command.

use std::future::Future;
use std::process::ExitCode;

use super::console::Console;
use super::failure::Failure;
use crate::interrupt::is_requested;
use crate::output::FAILED;
use crate::tunnel::lookups::MAX_THREADS;

/// Runs the command to its end, prints its failure, and returns its exit code. Results that were not printed
/// because the output was not read are a failure too.
pub(crate) fn block_on(console: &Console, command: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_THREADS)
        .build()
        .map_err(|e| Failure::file(format!("cannot start: {e}")))
        .and_then(|runtime| {
            let outcome = runtime.block_on(command);
            // Its threads may read a large file, or one of a disk that does not answer.
            runtime.shutdown_background();
            outcome
        });
    if let Err(failure) = &outcome {
        console.note(format!("error: {}", failure.message));
    }
    let lost = console.finish(is_requested() || outcome.as_ref().is_err_and(Failure::is_interrupt));
    match outcome {
        Ok(()) if lost > 0 => ExitCode::from(FAILED),
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.code),
    }
}
