//! `ping` over paths that a test controls.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{code, stderr, stdout};

const WHIMBREL: &str = env!("CARGO_BIN_EXE_whimbrel");

/// `whimbrel echo`, stopped at the end of the test, and its address.
struct Echo(Child, SocketAddr);

impl Echo {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(WHIMBREL);
        command.arg("echo").args(args).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let errors = child.stderr.take().expect("a pipe");
        BufReader::new(errors).read_line(&mut line).expect("text");
        let addr = line
            .strip_prefix("listening on UDP ")
            .and_then(|rest| rest.split_once(", SCTP"));
        let addr = addr
            .and_then(|(addr, _)| addr.parse().ok())
            .unwrap_or_else(|| panic!("{line}"));
        Echo(child, addr)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Forwards datagrams to an address and back, each after this delay. Returns where, and the sizes of those to the address.
fn relay(to: SocketAddr, delay: Duration) -> (SocketAddr, Arc<Mutex<Vec<usize>>>) {
    let outside = UdpSocket::bind((to.ip(), 0)).expect("bound");
    let addr = outside.local_addr().expect("bound");
    let inside = UdpSocket::bind((to.ip(), 0)).expect("bound");
    inside.connect(to).expect("an address");
    for socket in [&outside, &inside] {
        socket.set_nonblocking(true).expect("a socket");
    }
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = sizes.clone();
    std::thread::spawn(move || {
        let mut client = None;
        let mut buffer = [0; 65_536];
        let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
        loop {
            let now = Instant::now();
            while let Ok((len, source)) = outside.recv_from(&mut buffer) {
                client = Some(source);
                seen.lock().expect("no panic").push(len);
                there.push_back((now + delay, buffer[..len].to_vec()));
            }
            while let Ok(len) = inside.recv(&mut buffer) {
                back.push_back((now + delay, buffer[..len].to_vec()));
            }
            while there.front().is_some_and(|(due, _)| *due <= now) {
                let _ = inside.send(&there.pop_front().expect("one").1);
            }
            while let (Some(client), Some((due, _))) = (client, back.front())
                && *due <= now
            {
                let _ = outside.send_to(&back.pop_front().expect("one").1, client);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    (addr, sizes)
}

fn ping(addr: SocketAddr, args: &[&str]) -> Output {
    let output = Command::new(WHIMBREL)
        .args(["ping", &addr.to_string()])
        .args(args)
        .output();
    output.expect("the command starts")
}

#[test]
fn frequent_pings_over_a_long_path_are_not_lost() {
    let echo = Echo::start(&["--listen", "127.0.2.1:0"]);
    let (addr, _) = relay(echo.1, Duration::from_millis(300));
    let report = stdout(&ping(addr, &["-i", "2 ms", "-c", "700", "--json"]));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let path = &report["paths"][0];
    assert_eq!(
        (&path["sent"], &path["answered"]),
        (&700.into(), &700.into()),
        "{report}"
    );
    assert!(path["rtt_ms"]["min"].as_f64() >= Some(600.0), "{report}");
}

#[test]
fn more_pings_than_can_be_awaited_are_refused() {
    let echo = Echo::start(&["--listen", "127.0.2.1:0"]);
    let refused = ping(echo.1, &["-i", "2 ms", "-W", "1 min"]);
    assert_eq!(code(&refused), 2, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--interval"), "{}", stderr(&refused));
    let few = ping(echo.1, &["-i", "2 ms", "-W", "1 min", "-c", "5"]);
    assert_eq!(code(&few), 0, "{}", stderr(&few));
}

#[test]
fn size_is_that_of_the_ip_packet() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("a file");
    }
    let key = ["--key", key.to_str().expect("text")];
    for (listen, headers) in [("127.0.2.1:0", 20 + 8), ("[::1]:0", 40 + 8)] {
        for options in [&[][..], &key] {
            let echo = Echo::start(&[&["--listen", listen], options].concat());
            let (addr, sizes) = relay(echo.1, Duration::ZERO);
            let done = ping(addr, &[&["-s", "400", "-c", "3", "-i", "20 ms"], options].concat());
            assert_eq!(code(&done), 0, "{}", stderr(&done));
            let sizes = sizes.lock().expect("no panic");
            let pings = sizes.iter().filter(|size| **size + headers == 400).count();
            assert!(pings >= 3, "{listen} {options:?}: {sizes:?}");
        }
    }
}

#[test]
fn ctrl_c_is_the_usual_end() {
    let echo = Echo::start(&["--listen", "127.0.2.1:0"]);
    let mut command = Command::new(WHIMBREL);
    command
        .args(["ping", &echo.1.to_string(), "-i", "20 ms"])
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.next().expect("a line").expect("text").contains("ping 1,"));
    let id = child.id().to_string();
    let status = Command::new("kill").args(["-INT", &id]).status();
    assert!(status.expect("kill").success());
    assert_eq!(child.wait().expect("a child").code(), Some(0));
    let help = Command::new(WHIMBREL)
        .args(["ping", "--help"])
        .output()
        .expect("it starts");
    assert!(
        stdout(&help).contains("0    done, or ended by Ctrl-C"),
        "{}",
        stdout(&help)
    );
}
