//! `perf`, `ping` and `echo` over loopback.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use whimbrel::{Message, Stack, StackConfig};
use whimbrel_testkit::process::{InTime as _, Lines, Process, finish, list, signal};

use crate::identity::encrypted;
use crate::support::{WHIMBREL, code, in_time, stderr, stdout};

/// A server that is stopped at the end of the test.
struct Server {
    process: Process,
    addrs: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut process = Process::start(Command::new(WHIMBREL).args(args).stdout(Stdio::piped()));
        let addrs = list(&process.listening());
        Server { process, addrs }
    }

    /// The client's output for these arguments.
    fn run(&self, command: &str, args: &[&str]) -> Output {
        Command::new(WHIMBREL)
            .args([command, &self.addrs])
            .args(args)
            .output_in_time()
    }

    /// Ends it by Ctrl-C. Returns code, standard output and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        self.process.signal("-INT");
        let code = self.process.wait();
        let out = Lines::of(self.process.child.stdout.take().expect("a pipe")).rest();
        (code, out, self.process.errors.rest())
    }
}

fn perf_server() -> Server {
    Server::start(&["perf", "--server", "--listen", "127.0.2.1:0,127.0.2.2:0"])
}

fn json(output: &Output) -> Value {
    assert_eq!(code(output), 0, "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn perf_reports_each_path_in_each_interval() {
    let server = perf_server();
    let local = ["--local", "127.0.1.1,127.0.1.2"];
    let output = server.run(
        "perf",
        &[&local[..], &["-t", "500 ms", "-i", "200 ms", "--json"]].concat(),
    );
    let report = json(&output);
    assert_eq!(report["start"]["scheme"], "multipath");
    let intervals = report["intervals"].as_array().expect("a list");
    assert!(intervals.len() >= 2, "{report:#}");
    for interval in intervals {
        assert_eq!(interval["direction"], "sent");
        let paths = interval["paths"].as_array().expect("a list");
        let ends: Vec<_> = paths.iter().map(|path| path["local"].as_str().unwrap_or("")).collect();
        assert!(
            ends[0].starts_with("127.0.1.1:") && ends[1].starts_with("127.0.1.2:"),
            "{ends:?}"
        );
        assert!(paths.iter().all(|path| path["cwnd_bytes"].as_u64() > Some(0)));
    }
    // The intervals add up to the total, and everything sent has arrived.
    let total = &report["end"]["associations"][0];
    let sum: u64 = intervals
        .iter()
        .map(|interval| interval["bytes"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(total["sent"]["bytes"].as_u64(), Some(sum));
    assert!(total["peer_received"]["bytes"].as_u64() >= Some(sum - 200), "{total:#}");
    assert_eq!(
        total["peer_received"]["bytes"].as_u64().map(|bytes| bytes % 8192),
        Some(0)
    );
    let (code, out, err) = server.end();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("received ") && out.lines().count() == 1, "{out}");
}

#[test]
fn perf_sends_an_amount_in_both_directions_on_several_associations() {
    let server = perf_server();
    let args = [
        "--bidir",
        "--parallel",
        "3",
        "-n",
        "2MB",
        "-l",
        "1400",
        "--scheme",
        "standard",
        "--json",
    ];
    let report = json(&server.run("perf", &args));
    let each = report["end"]["associations"].as_array().expect("a list");
    assert_eq!(each.len(), 3);
    for association in each {
        for direction in ["received", "peer_received"] {
            // The amount in whole messages.
            assert_eq!(
                association[direction]["bytes"], 2_000_600,
                "{direction}: {association:#}"
            );
        }
    }
    let sums = report["end"]["sum"].as_array().expect("a list");
    assert!(
        sums.iter()
            .any(|sum| sum["direction"] == "received" && sum["bytes"] == 3 * 2_000_600)
    );
    let text = stdout(&server.run("perf", &["--reverse", "-n", "3MB", "-P", "2"]));
    assert!(text.contains("total received") && text.contains("peer sent"), "{text}");
    server.end();
}

/// A burst is 64 messages: the end is noticed after the last of them, too.
#[test]
fn perf_sends_no_message_more_than_the_amount() {
    let server = perf_server();
    for messages in 60..70_u64 {
        let bytes = (messages * 1400).to_string();
        let report = json(&server.run("perf", &["-n", &bytes, "-l", "1400", "--json"]));
        let received = &report["end"]["associations"][0]["peer_received"]["bytes"];
        assert_eq!(*received, messages * 1400);
    }
    server.end();
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let server = perf_server();
    for direction in [&[][..], &["--reverse"]] {
        let child = Command::new(WHIMBREL)
            .args(["perf", &server.addrs, "-t", "60 s", "-i", "100 ms"])
            .args(direction)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(700));
        signal(&child, "-INT");
        let output = finish(child);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(130), "{text}{}", stderr(&output));
        assert!(
            text.lines().last().is_some_and(|line| line.contains("total ")),
            "{text}"
        );
    }
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_closed_or_full_output_does_not_stop_a_measurement() {
    let server = perf_server();
    let full = || {
        Stdio::from(
            std::fs::File::options()
                .write(true)
                .open("/dev/full")
                .expect("a device"),
        )
    };
    let closed = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    for (command, args) in [
        ("perf", &["-t", "300 ms", "-i", "100 ms"][..]),
        ("ping", &["-c", "3", "-i", "20 ms"]),
    ] {
        for output in [full(), closed()] {
            let child = Command::new(WHIMBREL)
                .args([command, &server.addrs])
                .args(args)
                .stdout(output)
                .stderr(closed())
                .spawn();
            assert_eq!(code(&finish(child.expect("it starts"))), 0, "{command}");
        }
    }
    let (_, out, _) = server.end();
    assert_eq!(out.lines().count(), 2, "{out}");
}

#[test]
fn ping_measures_every_path() {
    let server = Server::start(&["echo", "--listen", "127.0.2.1:0,127.0.2.2:0"]);
    let local = ["--local", "127.0.1.1,127.0.1.2", "-c", "5", "-i", "20 ms"];
    let text = stdout(&server.run("ping", &local));
    for path in ["127.0.1.1 > 127.0.2.1", "127.0.1.2 > 127.0.2.2"] {
        assert!(text.contains(&format!("{path}: ping 5, ")), "{text}");
        assert!(
            text.contains(&format!("{path}: 5 sent, 5 answered, 0.0 % lost\n  RTT min/mean/max")),
            "{text}"
        );
    }
    let report = json(&server.run("ping", &[&local[..], &["--json", "-s", "1400"]].concat()));
    assert_eq!(report["paths"][1]["answered"], 5);
    assert!(report["paths"][1]["rtt_ms"]["mean"].as_f64() > Some(0.0));
    server.end();
}

#[tokio::test]
async fn echo_returns_messages_and_serves_measurements() {
    let server = Server::start(&["echo", "--listen", "127.0.0.1:0"]);
    let to = [server.addrs.parse().expect("an address")];
    let stack = Stack::toward(encrypted(StackConfig::default()), &to).expect("bound");
    let association = in_time(stack.connect(&to, 5000)).await.expect("connected");
    for size in [1, 100_000] {
        association.send(Message::new(0, vec![7; size])).await.expect("sent");
        let answer = in_time(association.recv()).await.expect("open").expect("an answer");
        assert_eq!(answer.data, vec![7; size]);
    }
    in_time(association.shutdown()).await.expect("in good order");
    assert_eq!(code(&server.run("perf", &["-n", "1MB"])), 0);
    let (_, out, _) = server.end();
    assert!(out.contains("returned 2 messages, 100001 bytes"), "{out}");
}

#[tokio::test]
async fn a_hostile_client_gets_an_error() {
    const START: u32 = 0x5748_5001;
    let server = Server::start(&["perf", "--server", "--listen", "127.0.0.1:0", "--max-time", "2 s"]);
    let to = [server.addrs.parse().expect("an address")];
    let start = |seconds: &str, bytes: &str| {
        format!(
            "{{\"version\":1,\"reverse\":true,\"forward\":true,\"message_bytes\":{bytes},\"seconds\":{seconds},\
             \"bytes\":null,\"interval\":1}}"
        )
    };
    let cases: [(u32, String, &str); 6] = [
        (START, "[".repeat(60_000), "cannot be read"),
        (START, start("1e300", "100"), "--max-time"),
        (START, start("3", "100"), "--max-time"),
        (START, start("1", "0"), "messages of 0 bytes"),
        (START + 5, "{}".to_owned(), "cannot be read"),
        (0, "GET / HTTP/1.1".to_owned(), "another protocol"),
    ];
    for (ppid, content, words) in cases {
        let stack = Stack::toward(encrypted(StackConfig::default()), &to).expect("bound");
        let association = in_time(stack.connect(&to, 5000)).await.expect("connected");
        let message = Message {
            ppid,
            ..Message::new(0, content)
        };
        association.send(message).await.expect("sent");
        let answer = in_time(association.recv()).await.expect("open").expect("an answer");
        let answer = String::from_utf8(answer.data).expect("text");
        assert!(answer.contains(words), "{answer} instead of {words}");
        in_time(association.shutdown()).await.expect("in good order");
    }
    assert_eq!(code(&server.run("perf", &["-n", "1MB"])), 0);
    assert_eq!(code(&server.run("perf", &["-t", "200 ms"])), 0);
    server.end();
}

#[tokio::test]
async fn only_the_start_of_a_measurement_counts_for_once() {
    let mut server = Server::start(&["perf", "--server", "--once", "--listen", "127.0.0.1:0"]);
    let to = [server.addrs.parse().expect("an address")];
    let stack = Stack::toward(encrypted(StackConfig::default()), &to).expect("bound");
    let association = in_time(stack.connect(&to, 5000)).await.expect("connected");
    let message = Message::new(0, "GET / HTTP/1.1");
    association.send(message).await.expect("sent");
    let answer = in_time(association.recv()).await.expect("open").expect("an answer");
    assert!(String::from_utf8_lossy(&answer.data).contains("another protocol"));
    in_time(association.shutdown()).await.expect("in good order");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        server.process.child.try_wait().expect("a child").is_none(),
        "a stranger ended it"
    );
    let measured = server.run("perf", &["-n", "100kB"]);
    assert_eq!(code(&measured), 0, "{}", stderr(&measured));
    assert_eq!(server.process.wait(), Some(0));
}

#[test]
fn wrong_use_and_missing_servers_have_exit_codes() {
    let run = |args: &[&str]| Command::new(WHIMBREL).args(args).output_in_time();
    for args in [
        &["perf"][..],
        &["perf", "--server"],
        &["perf", "127.0.0.1", "--server", "--listen", "127.0.0.1"],
        &["perf", "127.0.0.1", "-t", "0 s"],
        &["perf", "127.0.0.1", "-t", "NaN"],
        &["perf", "127.0.0.1", "-P", "0"],
        &["perf", "127.0.0.1", "-l", "2MiB"],
        &["perf", "127.0.0.1", "-n", "0"],
        &["perf", "127.0.0.1", "-l", "1MiB", "--buffer", "64KiB"],
        &["perf", "127.0.0.1", "--scheme", "magic"],
        &["ping"],
        &["ping", "127.0.0.1", "-s", "10"],
        &["ping", "127.0.0.1", "-i", "1 ms"],
        &["echo"],
    ] {
        assert_eq!(code(&run(args)), 2, "{args:?}");
    }
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
    let addr = closed.local_addr().expect("bound").to_string();
    drop(closed);
    for command in ["perf", "ping"] {
        let refused = run(&[command, &addr]);
        assert_eq!(code(&refused), 3, "{}", stderr(&refused));
    }
}

/// Forwards datagrams to an address and back, from another port for the first packet that comes after each `period`. Returns where. If nothing
/// came after the change, the peer could not know of it.
fn rebinding_relay(to: std::net::SocketAddr, period: Duration) -> std::net::SocketAddr {
    use std::net::UdpSocket;
    let socket = move || {
        let socket = UdpSocket::bind((to.ip(), 0)).expect("bound");
        socket.set_nonblocking(true).expect("a socket");
        socket
    };
    let outside = socket();
    let addr = outside.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut inside, mut since, mut client) = (socket(), std::time::Instant::now(), None);
        let mut buffer = [0; 65_536];
        loop {
            let mut idle = true;
            for _ in 0..64 {
                if let Ok((len, source)) = outside.recv_from(&mut buffer) {
                    (client, idle) = (Some(source), false);
                    if since.elapsed() >= period {
                        (inside, since) = (socket(), std::time::Instant::now());
                    }
                    let _ = inside.send_to(&buffer[..len], to);
                }
                if let (Ok((len, _)), Some(client)) = (inside.recv_from(&mut buffer), client) {
                    idle = false;
                    let _ = outside.send_to(&buffer[..len], client);
                }
            }
            if idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    addr
}

#[test]
fn a_path_whose_port_changes_is_not_counted_anew() {
    let server = Server::start(&["echo", "--listen", "127.0.2.1:0"]);
    let to = server.addrs.parse().expect("an address");
    let relay = rebinding_relay(to, Duration::from_millis(1500)).to_string();
    let output = Command::new(WHIMBREL)
        .args(["perf", &relay, "--reverse", "-t", "5 s", "-i", "250 ms", "--json"])
        .output_in_time();
    let report = json(&output);
    let sent: Vec<_> = report["intervals"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|interval| interval["direction"] == "peer sent")
        .collect();
    let bytes = |value: &Value| value["bytes"].as_u64().expect("a number");
    let mut ports = std::collections::BTreeSet::new();
    for interval in &sent {
        let paths = interval["paths"].as_array().expect("a list");
        ports.extend(paths.iter().map(|path| path["remote"].to_string()));
        let of_paths: u64 = paths.iter().map(bytes).sum();
        // With headers, and what was acknowledged between two readings.
        assert!(of_paths <= bytes(interval) * 2 + 500_000, "{interval:#}");
    }
    assert!(ports.len() >= 2, "the port changes: {ports:?}");
    let total: u64 = sent.iter().map(|interval| bytes(interval)).sum();
    assert!(total > 5_000_000, "{total}");
}

/// Runs the client with the live view in a terminal of this width. Returns everything that it writes to the terminal.
fn in_terminal(server: &Server, columns: u16, args: &[&str]) -> String {
    use std::io::Read as _;
    let size = nix::pty::Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = nix::pty::openpty(Some(&size), None).expect("a terminal");
    let mut command = Command::new(WHIMBREL);
    command
        .args(["perf", &server.addrs, "--tui"])
        .args(args)
        .stdin(Stdio::null());
    let ours = terminal.slave.try_clone().expect("a handle");
    let mut child = command.stdout(ours).stderr(terminal.slave).spawn().expect("it starts");
    drop(command);
    let reading = std::thread::spawn(move || {
        let (mut master, mut all, mut buffer) = (std::fs::File::from(terminal.master), Vec::new(), [0; 65_536]);
        // The end is an error on Linux.
        while let Ok(len @ 1..) = master.read(&mut buffer) {
            all.extend_from_slice(&buffer[..len]);
        }
        String::from_utf8_lossy(&all).into_owned()
    });
    assert_eq!(whimbrel_testkit::process::wait(&mut child), Some(0));
    reading.join().expect("no panic")
}

#[test]
fn the_live_view_is_painted_again_and_left_for_good() {
    let server = Server::start(&["echo", "--listen", "127.0.2.1:0"]);
    let written = in_terminal(&server, 60, &["-t", "4 s", "-i", "500 ms"]);
    let (view, rest) = written.split_once("\u{1b}[?1049l").expect("it is left");
    // A picture every 250 ms, as a whole each, until the end; all of it again every 2 s.
    let pictures = view.matches("\u{1b}[?2026h").count();
    assert_eq!(view.matches("\u{1b}[?2026l").count(), pictures);
    assert!(pictures >= 10, "{pictures} pictures");
    assert!(view.contains("\u{1b}[2J") && view.matches("RTT").count() >= 2, "{view}");
    // Then there are lines only.
    assert!(
        rest.contains("connected to 127.0.2.1:") && rest.contains("total "),
        "{rest}"
    );
    assert!(!rest.contains("\u{1b}[?2026h") && !rest.contains("\u{1b}[2J"), "{rest}");
}
