//! Hosts as network namespaces.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, setns};

/// A network namespace with a loopback interface, until it is dropped.
pub(crate) struct Host {
    /// A process that does nothing in it.
    holder: Child,
}

impl Host {
    pub(crate) fn new() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = holder.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let host = Host { holder };
        host.ip("link set lo up");
        host
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// A program in this namespace.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    pub(crate) fn ip(&self, arguments: &str) {
        let status = self.command("ip").args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "ip {arguments}");
    }

    /// Adds an address to an interface that is up, and waits until it can be used.
    pub(crate) fn add_address(&self, addr: &str, interface: &str) {
        self.ip(&format!("addr add {addr} dev {interface} nodad"));
        whimbrel_testkit::await_address(|| self.command("ip"), addr);
    }

    pub(crate) fn write(&self, file: &str, value: &str) {
        let script = format!("echo {value} > {file}");
        assert!(
            self.command("sh").args(["-c", &script]).status().unwrap().success(),
            "{file}"
        );
    }

    /// Runs a future on a thread in this namespace.
    pub(crate) fn run<T: Send + 'static, F: Future<Output = T>>(
        &self,
        task: impl FnOnce() -> F + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = std::fs::File::open(self.path()).unwrap();
        std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(task())
        })
    }

    /// Connects it with another host by a cable between two interfaces that have these addresses, each with the length of its prefix.
    pub(crate) fn connect(&self, interface: &str, addrs: &[&str], other: &Host, there: &str, addrs_there: &[&str]) {
        let id = other.holder.id();
        self.ip(&format!("link add {interface} type veth peer name {there} netns {id}"));
        for (host, interface, addrs) in [(self, interface, addrs), (other, there, addrs_there)] {
            for addr in addrs {
                // Without the test for duplicates, which takes a second.
                let nodad = if addr.contains(':') { " nodad" } else { "" };
                host.ip(&format!("addr add {addr} dev {interface}{nodad}"));
            }
            host.ip(&format!("link set {interface} up"));
        }
        for (host, addrs) in [(self, addrs), (other, addrs_there)] {
            for addr in addrs {
                whimbrel_testkit::await_address(|| host.command("ip"), addr);
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
