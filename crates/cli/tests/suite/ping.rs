//! `ping` over paths that a test controls.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use whimbrel_testkit::process::{InTime as _, Lines, Process, wait};
use whimbrel_testkit::{ipv6, needs};

use crate::support::{WHIMBREL, code, stderr, stdout};

/// `whimbrel echo`, stopped at the end of the test, and its address.
struct Echo {
    _process: Process,
    addr: SocketAddr,
}

impl Echo {
    fn start(args: &[&str]) -> Self {
        let mut process = Process::start(Command::new(WHIMBREL).arg("echo").args(args));
        let addr = process.listening()[0];
        let _process = process;
        Echo { _process, addr }
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
    Command::new(WHIMBREL)
        .args(["ping", &addr.to_string()])
        .args(args)
        .output_in_time()
}

#[test]
fn frequent_pings_over_a_long_path_are_not_lost() {
    let echo = Echo::start(&["--listen", "127.0.2.1:0"]);
    let (addr, _) = relay(echo.addr, Duration::from_millis(300));
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
    let refused = ping(echo.addr, &["-i", "2 ms", "-W", "1 min"]);
    assert_eq!(code(&refused), 2, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--interval"), "{}", stderr(&refused));
    assert_eq!(
        interrupted(echo.addr, &["-i", "2 ms", "-W", "1 min", "-c", "5"]),
        Some(0)
    );
}

/// Pings until the first answer and then Ctrl-C. Returns the exit code.
fn interrupted(addr: SocketAddr, args: &[&str]) -> Option<i32> {
    let mut command = Command::new(WHIMBREL);
    command.args(["ping", &addr.to_string()]).args(args);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = Lines::of(child.stdout.take().expect("a pipe"));
    assert!(lines.next_line().expect("a line").contains("ping 1,"));
    // It may have ended already.
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    wait(&mut child)
}

#[test]
fn size_is_that_of_the_ipv4_packet() {
    sizes_are_those_of_packets("127.0.2.1:0", 20 + 8);
}

#[test]
fn size_is_that_of_the_ipv6_packet() {
    needs!(ipv6());
    sizes_are_those_of_packets("[::1]:0", 40 + 8);
}

fn sizes_are_those_of_packets(listen: &str, headers: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("a file");
    }
    let key = ["--key", key.to_str().expect("text"), "--auth-only"];
    for (options, added) in [(&["--insecure"][..], 0), (&[], 28), (&key[..2], 28), (&key, 40)] {
        let echo = Echo::start(&[&["--listen", listen], options].concat());
        let least = 66 + headers - 28 + added;
        for size in [least, 400] {
            let (addr, sizes) = relay(echo.addr, Duration::ZERO);
            let done = ping(
                addr,
                &[&["-s", &size.to_string(), "-c", "3", "-i", "20 ms"], options].concat(),
            );
            assert_eq!(code(&done), 0, "{}", stderr(&done));
            let sizes = sizes.lock().expect("no panic");
            // RFC 9260 §3.2: chunks have padding.
            let pings = sizes.iter().filter(|sent| **sent + headers == size.next_multiple_of(4));
            let pings = pings.count();
            assert!(pings >= 3, "{options:?}: {sizes:?}");
        }
        let size = (least - 1).to_string();
        let refused = ping(echo.addr, &[&["-s", &size, "-c", "1"], options].concat());
        assert_eq!(code(&refused), 2, "{}", stderr(&refused));
        // Less than 66 is refused in any case.
        let says = added == 0 && headers == 28 || stderr(&refused).contains(&format!("is {least}"));
        assert!(says, "{}", stderr(&refused));
    }
}

#[test]
fn ctrl_c_is_the_usual_end() {
    let echo = Echo::start(&["--listen", "127.0.2.1:0"]);
    assert_eq!(interrupted(echo.addr, &["-i", "20 ms"]), Some(0));
    let help = Command::new(WHIMBREL).args(["ping", "--help"]).output_in_time();
    assert!(
        stdout(&help).contains("0    done, or ended by Ctrl-C"),
        "{}",
        stdout(&help)
    );
}
