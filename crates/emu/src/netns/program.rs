//! Programs in namespaces.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use super::hosts;
use super::registry::end_processes;

/// How often requests to stop are looked for.
const TICK: Duration = Duration::from_millis(20);
/// Time for the other programs to end by themselves after the main one.
const GRACE: Duration = Duration::from_millis(300);
/// The emulator itself has failed, as of `env` and `timeout`.
const FAILED: u8 = 125;
/// The program cannot be executed, as of `env` and `nohup`.
const CANNOT_EXECUTE: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;

/// A program to run in a namespace.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The file of the namespace.
    pub space: PathBuf,
    /// The program with its arguments.
    pub command: Vec<OsString>,
    /// Whether the emulation ends when it ends.
    pub main: bool,
}

/// Running programs.
#[derive(Debug)]
pub struct Programs {
    thread: JoinHandle<u8>,
}

impl Programs {
    /// Starts programs. `wrapper` is a command that calls [`enter`] with the arguments that follow it. `spaces` are the names of the
    /// namespaces of the emulation.
    ///
    /// When the main program ends, or all of them if none is the main one, the others are ended and `done` is set. The same happens
    /// when `stop` is set.
    pub fn start(
        wrapper: Vec<OsString>,
        specs: Vec<Spec>,
        spaces: Vec<String>,
        stop: Arc<AtomicBool>,
        done: Arc<AtomicBool>,
    ) -> Self {
        let thread = std::thread::spawn(move || {
            let code = supervise(&wrapper, &specs, &spaces, &stop);
            done.store(true, Ordering::Relaxed);
            code
        });
        Programs { thread }
    }

    /// Waits for the end, and returns the exit code: that of the main program, otherwise the first that is not 0. A program that a
    /// signal ended has 128 and the number of the signal.
    pub fn wait(self) -> u8 {
        self.thread.join().unwrap_or(FAILED)
    }
}

fn supervise(wrapper: &[OsString], specs: &[Spec], spaces: &[String], stop: &AtomicBool) -> u8 {
    let (sender, ended) = mpsc::channel();
    let has_main = specs.iter().any(|spec| spec.main);
    let mut threads = Vec::new();
    for spec in specs.iter().cloned() {
        let (sender, wrapper) = (sender.clone(), wrapper.to_vec());
        // The program is killed when the thread that started it ends: the thread waits for it.
        threads.push(std::thread::spawn(move || {
            let code = run(&wrapper, &spec);
            let _ = sender.send((spec.main, code));
        }));
    }
    drop(sender);
    let mut codes = Vec::new();
    let mut of_main = None;
    while codes.len() < specs.len() && of_main.is_none() && !stop.load(Ordering::Relaxed) {
        match ended.recv_timeout(TICK) {
            Ok((main, code)) => {
                codes.push(code);
                of_main = of_main.or((main && has_main).then_some(code));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // A server may be about to end, too.
    let mut running = specs.len() - codes.len();
    while running > 0 && of_main.is_some() && ended.recv_timeout(GRACE).is_ok() {
        running -= 1;
    }
    // Programs that this ends do not determine the exit code.
    let code = of_main.or_else(|| codes.into_iter().find(|code| *code != 0));
    end_processes(spaces);
    for thread in threads {
        let _ = thread.join();
    }
    code.unwrap_or(0)
}

fn run(wrapper: &[OsString], spec: &Spec) -> u8 {
    let [program, args @ ..] = wrapper else {
        return FAILED;
    };
    let mut command = Command::new(program);
    command.args(args).arg(&spec.space).args(&spec.command);
    command.status().map_or(FAILED, exit_code)
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// Replaces this process with a program in a namespace. The program is killed when its parent ends. Returns only if this fails, with
/// the exit code and the error.
pub fn enter(space: &Path, command: &[OsString]) -> (u8, io::Error) {
    let [program, args @ ..] = command else {
        return (CANNOT_EXECUTE, io::Error::other("no program is given"));
    };
    if let Err(error) = prepare(space) {
        return (FAILED, error);
    }
    let error = Command::new(program).args(args).exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_EXECUTE,
    };
    (code, error)
}

/// Enters a namespace. `/sys` then shows its devices, as with `ip netns exec`, and `/etc/hosts` has the names of the nodes.
fn prepare(space: &Path) -> io::Result<()> {
    let parent = parent_id();
    set_pdeathsig(Signal::SIGKILL)?;
    if parent_id() != parent {
        return Err(io::Error::other("the emulation has ended"));
    }
    setns(std::fs::File::open(space)?, CloneFlags::CLONE_NEWNET)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_SLAVE | MsFlags::MS_REC, none)?;
    hosts::mount(space);
    // Without /sys, programs still run.
    if umount2("/sys", MntFlags::MNT_DETACH).is_ok() {
        let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }
}
