//! A Linux kernel as a process: User Mode Linux, which needs no privileges, with `peer.c` as its only program, which uses the
//! kernel's SCTP or brings usrsctp with it. `machine.rs` finds out whether this machine can run it at all.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::frame::{self, INTERFACES};
use crate::machine::{self, KERNEL, Machine};

const MODULES: &str = "/usr/lib/uml/modules";

/// The SCTP of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stack {
    Kernel,
    /// The kernel's, inside UDP (RFC 6951).
    KernelUdp,
    Usrsctp,
}

impl Stack {
    /// The UDP port of both ends; 0 is plain SCTP over IP.
    pub(crate) fn udp_port(self) -> u16 {
        if self == Stack::KernelUdp { 9899 } else { 0 }
    }
}

/// As many guests run at a time. Each uses some 30 megabytes of /dev/shm, of which containers often have 64.
const AT_A_TIME: u32 = 2;

/// Held by a guest that runs.
struct Turn;

static RUNNING: Mutex<u32> = Mutex::new(0);
static ONE_LESS: Condvar = Condvar::new();

impl Turn {
    /// Waits for it.
    fn take() -> Self {
        let full = |running: &mut u32| *running == AT_A_TIME;
        *ONE_LESS.wait_while(RUNNING.lock().unwrap(), full).unwrap() += 1;
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap() -= 1;
        ONE_LESS.notify_one();
    }
}

/// Something from the guest.
pub(crate) enum Arrival {
    /// An Ethernet frame from one of its devices.
    Frame(usize, Vec<u8>),
    /// What its program answers.
    Line(String),
    /// It has been turned off.
    Off,
}

/// A running kernel, killed at the end of the test with all that belongs to it.
pub(crate) struct Guest {
    child: Child,
    input: Option<ChildStdin>,
    cables: Vec<UnixDatagram>,
    pub(crate) arrivals: Receiver<Arrival>,
    log: Arc<Mutex<String>>,
    errors: JoinHandle<()>,
    folder: PathBuf,
    /// Given back last. None once it was killed to boot again.
    turn: Option<Turn>,
}

impl Guest {
    /// Boots a kernel whose devices have the addresses of [`frame`]; it says "= ready" when its program runs.
    ///
    /// # Panics
    /// If this machine cannot run it: see [`machine::can_run`].
    pub(crate) fn boot(stack: Stack) -> Self {
        Self::boot_on(machine::can_run(stack).unwrap(), stack)
    }

    /// The same with these settings.
    pub(crate) fn boot_on(machine: &Machine, stack: Stack) -> Self {
        Self::boot_in_turn(machine, stack, Turn::take())
    }

    /// Is killed, and boots again.
    pub(crate) fn reboot(&mut self, stack: Stack) {
        self.kill();
        let turn = self.turn.take().expect("it has one while it runs");
        *self = Self::boot_in_turn(machine::can_run(stack).unwrap(), stack, turn);
    }

    fn boot_in_turn(machine: &Machine, stack: Stack, turn: Turn) -> Self {
        let folder = root_folder(stack, machine);
        let mut command = kernel_command(machine, &folder);
        // Pairs of sockets are the cables; frames neither get lost in them nor change their order.
        let (mut cables, mut far_ends) = (Vec::new(), Vec::new());
        for interface in 0..INTERFACES {
            let (near, far) = UnixDatagram::pair().unwrap();
            near.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
            // The copy, unlike the original, stays open in the child.
            let far = nix::unistd::dup(far).unwrap();
            let mac = frame::text(frame::their_mac(interface));
            command.arg(format!("vec{interface}:transport=fd,fd={},mac={mac}", far.as_raw_fd()));
            cables.push(near);
            far_ends.push(far);
        }
        let version = output(Command::new(KERNEL).arg("--version"));
        command.arg("--").arg(Path::new(MODULES).join(version.trim()));
        command.args((0..INTERFACES).map(|interface| frame::their_address(interface).to_string()));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        drop(far_ends);

        let log = Arc::new(Mutex::new(String::new()));
        let (sender, arrivals) = channel();
        for (interface, cable) in cables.iter().enumerate() {
            carry_frames(interface, cable.try_clone().unwrap(), sender.clone());
        }
        let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                // The kernel itself says something before it boots.
                let is_answer = line.starts_with("= ") || line.starts_with("! ");
                kept.lock().unwrap().push_str(&format!("{line}\n"));
                if is_answer && sender.send(Arrival::Line(line)).is_err() {
                    return;
                }
            }
            let _ = sender.send(Arrival::Off);
        });
        let kept = log.clone();
        let errors = std::thread::spawn(move || {
            for line in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
                kept.lock()
                    .unwrap()
                    .push_str(&format!("{}\n", String::from_utf8_lossy(&line)));
            }
        });
        Guest {
            input: child.stdin.take(),
            child,
            cables,
            arrivals,
            log,
            errors,
            folder,
            turn: Some(turn),
        }
    }

    /// Hands its program a line.
    pub(crate) fn write_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is open until the guest is turned off");
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Puts a frame on the wire of a device.
    pub(crate) fn send_frame(&self, interface: usize, frame: &[u8]) {
        self.cables[interface].send(frame).unwrap();
    }

    /// The cable of a device: for a thread that sends frames.
    pub(crate) fn cable(&self, interface: usize) -> UnixDatagram {
        self.cables[interface].try_clone().unwrap()
    }

    /// What comes from the guest, for a thread.
    pub(crate) fn take_arrivals(&mut self) -> Receiver<Arrival> {
        std::mem::replace(&mut self.arrivals, channel().1)
    }

    /// All that kernel and program have said; to the last word, if they have ended.
    pub(crate) fn log(&self) -> String {
        let begin = Instant::now();
        while !self.errors.is_finished() && begin.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.log.lock().unwrap().clone()
    }
}

/// The guest's file system: our program and places to mount things.
fn root_folder(stack: Stack, machine: &Machine) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "whimbrel-linux-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let folder = machine.folder.join(name);
    for place in ["dev", "proc", "modules"] {
        fs::create_dir_all(folder.join(place)).unwrap();
    }
    let peer = folder.join("peer");
    match stack {
        Stack::Kernel | Stack::KernelUdp => machine::compile(&["-static", "peer.c", "kernel.c"], &peer),
        Stack::Usrsctp => machine::compile(&["-static", "peer.c", "usrsctp.c", "-lusrsctp", "-lpthread"], &peer),
    }
    for name in machine.preload {
        let source = format!("{name}.c");
        machine::compile(
            &["-shared", "-fPIC", &source, "-ldl"],
            &folder.join(format!("{name}.so")),
        );
    }
    folder
}

/// The command that boots the kernel from this folder, without its devices and the arguments of its program.
fn kernel_command(machine: &Machine, folder: &Path) -> Command {
    let mut command = Command::new(KERNEL);
    // It manages up to 1 GiB of randomized gap beside its memory, which takes 16 MiB. What it does not touch costs nothing.
    command
        // Each device costs a process that looks for /sbin/hotplug; without these 512 it boots in less than half the time.
        .arg("pty.legacy_count=0")
        .args(["mem=256M", "root=hostfs", "rootfstype=hostfs", "rw", "init=/peer"])
        .args([
            "console=tty0",
            "con=null",
            "con0=null,fd:2",
            "ssl0=fd:0,fd:1",
            "loglevel=5",
        ])
        .arg(format!("rootflags={}", folder.display()))
        .args([format!("uml_dir={}", folder.display()), "umid=guest".to_owned()]);
    // The list of preloaded libraries is separated by spaces and colons, which the folder's own path may contain.
    let preload: Vec<String> = machine.preload.iter().map(|name| format!("./{name}.so")).collect();
    command.current_dir(folder).env("LD_PRELOAD", preload.join(" "));
    for variable in ["TMPDIR", "TMP", "TEMP"] {
        command.env_remove(variable);
    }
    if let Some(memory) = &machine.memory {
        command.env("TMPDIR", memory);
    }
    command
}

fn output(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

fn carry_frames(interface: usize, cable: UnixDatagram, sender: Sender<Arrival>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // None of length zero is sent: that is the end of the cable.
        while let Ok(len @ 1..) = cable.recv(&mut buffer) {
            if sender.send(Arrival::Frame(interface, buffer[..len].to_vec())).is_err() {
                break;
            }
        }
    });
}

impl Guest {
    fn kill(&mut self) {
        // It has helper processes, which live in its group. If we are killed ourselves, the end of its input turns it off.
        let group = Pid::from_raw(self.child.id() as i32);
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
        for cable in &self.cables {
            let _ = cable.shutdown(std::net::Shutdown::Both);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.turn.is_some() {
            self.kill();
        }
    }
}
