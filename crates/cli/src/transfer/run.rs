//! Runs an asynchronous command.

use std::future::Future;
use std::process::ExitCode;

use super::console::Console;
use super::failure::Failure;

/// Runs the command to its end, prints its failure, and returns its exit code.
pub(crate) fn block_on(console: &Console, command: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::file(format!("cannot start: {e}")))
        .and_then(|runtime| runtime.block_on(command));
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console.note(format!("error: {}", failure.message));
            ExitCode::from(failure.code)
        }
    };
    console.finish();
    code
}
