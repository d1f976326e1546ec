//! `--record`: the events of all associations, written to a file during a transfer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use whimbrel::PathId;
use whimbrel::Stack;
use whimbrel::trace::{AssocId, State, Trace, TraceEvent, TraceKinds};
use whimbrel_lab::event_line;

use super::console::Console;
use super::failure::Failure;
use crate::output::count;

/// The file in the folder of a recording.
const FILE: &str = "events.jsonl";
/// How often records are written.
const PERIOD: Duration = Duration::from_millis(50);
/// Records of a stack that may wait. 30 MB of a file make 56,000.
const WAITING: usize = 1 << 19;

/// The recording of this process.
static CURRENT: Mutex<Option<Recording>> = Mutex::new(None);

/// A thread that writes the file. It ends when the sender of new traces is dropped.
struct Recording {
    traces: mpsc::Sender<(String, Trace)>,
    writer: JoinHandle<()>,
    stacks: usize,
}

/// Records the associations of a stack to a file in `folder`. All stacks of a process share the file.
///
/// # Errors
/// Returns an error if the file exists or cannot be created.
pub(crate) fn record(folder: &Path, stack: &Stack, node: &str, console: &Console) -> Result<(), Failure> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let recording = match &mut *current {
        Some(recording) => recording,
        None => current.insert(start(folder, console.clone())?),
    };
    recording.stacks += 1;
    let node = match recording.stacks {
        1 => node.to_owned(),
        number => format!("{node}-{number}"),
    };
    // The kinds of a simulated run, except packets: their TSNs say the same.
    let kinds = TraceKinds::TSNS
        .with(TraceKinds::WINDOWS)
        .with(TraceKinds::RTT)
        .with(TraceKinds::STATES)
        .with(TraceKinds::ECN)
        .with(TraceKinds::VERDICTS);
    // The writer ends only after an error, which it has reported.
    let _ = recording.traces.send((node, stack.trace(kinds, WAITING)));
    Ok(())
}

/// Writes what has not been written yet. To be called before the process ends.
pub(crate) fn finish() {
    let recording = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Recording { traces, writer, .. }) = recording {
        drop(traces);
        let _ = writer.join();
    }
}

fn start(folder: &Path, console: Console) -> Result<Recording, Failure> {
    let path = folder.join(FILE);
    let failed = |error: &io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AlreadyExists => ": name another folder with --record",
            _ => "",
        };
        Failure::wrong_use(format!("cannot write {}: {error}{hint}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let file = File::create_new(&path).map_err(|error| failed(&error))?;
    let (traces, new) = mpsc::channel();
    let shown = path.display().to_string();
    let writer = std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
        if let Err(error) = write(BufWriter::with_capacity(1 << 20, file), &new) {
            console.note(format!(
                "warning: the recording has ended: cannot write {shown}: {error}"
            ));
        }
    });
    Ok(Recording {
        traces,
        writer: writer.map_err(|error| failed(&error))?,
        stacks: 0,
    })
}

/// A stack that is recorded.
struct Recorded {
    node: String,
    trace: Trace,
    /// The addresses of paths, as they were written last.
    assigned: BTreeMap<(AssocId, PathId), (SocketAddr, SocketAddr)>,
}

impl Recorded {
    /// Writes the records since the last call.
    fn write(&mut self, file: &mut impl Write) -> io::Result<()> {
        for (association, path) in self.trace.take_paths() {
            let addrs = (path.local, path.remote);
            if self.assigned.insert((association, path.id), addrs) != Some(addrs) {
                let time = self.trace.now().as_nanos() as f64 / 1e6;
                let data = json!({ "path": path.id.0, "local": path.local, "remote": path.remote });
                let (name, flow) = ("connectivity:path_assigned", association.to_string());
                let line = json!({ "time": time, "name": name, "flow": flow, "node": self.node, "data": data });
                writeln!(file, "{line}")?;
            }
        }
        let (mut result, mut ended) = (Ok(()), BTreeSet::new());
        self.trace.drain(|record| {
            if let TraceEvent::State { state: State::Closed } = record.event {
                ended.extend(record.association);
            }
            if result.is_ok() {
                let flow = record.association.map(|id| id.to_string()).unwrap_or_default();
                result = writeln!(file, "{}", event_line(record, &flow, &self.node));
            }
        });
        self.assigned.retain(|(association, _), _| !ended.contains(association));
        result
    }
}

/// Writes the records of all traces until no new ones can come.
fn write(mut file: impl Write, new: &mpsc::Receiver<(String, Trace)>) -> io::Result<()> {
    let mut stacks: Vec<Recorded> = Vec::new();
    let (mut over, mut lost) = (Vec::new(), 0);
    loop {
        let is_over = match new.recv_timeout(PERIOD) {
            Ok((node, trace)) => {
                writeln!(file, "{}", first_line(&node, &trace))?;
                stacks.push(Recorded {
                    node,
                    trace,
                    assigned: BTreeMap::new(),
                });
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        for stack in &mut stacks {
            over.push(stack.trace.is_over());
            stack.write(&mut file)?;
        }
        file.flush()?;
        let mut ended = over.drain(..);
        // A tunnel makes a new stack for each connection.
        stacks.retain(|stack| {
            let is_over = is_over || ended.next() == Some(true);
            lost += if is_over { stack.trace.lost() } else { 0 };
            !is_over
        });
        drop(ended);
        if is_over {
            if lost > 0 {
                // The console has ended.
                let _ = writeln!(
                    io::stderr(),
                    "warning: not recorded, because writing was too slow: {}",
                    count(lost, "event")
                );
            }
            return Ok(());
        }
    }
}

/// Returns the line that relates the times of a node to the clock of the host.
fn first_line(node: &str, trace: &Trace) -> String {
    let (now, clock) = (trace.now(), SystemTime::now().duration_since(UNIX_EPOCH));
    let unix_ms = clock.map_or(0.0, |since| since.as_secs_f64() * 1e3);
    let time = now.as_nanos() as f64 / 1e6;
    json!({ "time": time, "name": "recording:started", "flow": "", "node": node, "data": { "unix_ms": unix_ms } })
        .to_string()
}
