//! Programs that use SCTP through the sockets API, unchanged, with the preloaded library: in two network namespaces with two links, of which
//! one is cut during the transfers.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use whimbrel_testkit::process::{InTime, finish};
use whimbrel_testkit::{needs, program};

/// The library that cargo has built for this test, beside the test.
fn library() -> PathBuf {
    let path = std::env::current_exe()
        .unwrap()
        .with_file_name("libwhimbrel_preload.so");
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

/// What shows that a server listens: none of them says so.
enum Listening {
    /// UDP port 9899, which carries SCTP.
    Sctp,
    /// The TCP port of iperf3.
    Iperf,
}

/// Two namespaces with two links between them; they are deleted at the end.
struct Network {
    name: String,
}

impl Network {
    fn new(test: &str) -> Network {
        let network = Network {
            name: format!("whs-{test}-{}", std::process::id()),
        };
        for end in ["a", "b"] {
            ip(&["netns", "add", &network.end(end)]);
            ip(&["-n", &network.end(end), "link", "set", "lo", "up"]);
        }
        let (a, b) = (network.end("a"), network.end("b"));
        for link in ["1", "2"] {
            let (left, right) = (format!("l{link}"), format!("r{link}"));
            ip(&[
                "link", "add", &left, "netns", &a, "type", "veth", "peer", "name", &right, "netns", &b,
            ]);
            for (end, device, host) in [(&a, &left, "1"), (&b, &right, "2")] {
                ip(&[
                    "-n",
                    end,
                    "addr",
                    "add",
                    &format!("10.77.{link}.{host}/24"),
                    "dev",
                    device,
                ]);
                ip(&["-n", end, "link", "set", device, "up"]);
            }
        }
        network
    }

    fn end(&self, end: &str) -> String {
        format!("{}-{end}", self.name)
    }

    /// A program in a namespace, with the library. It is stopped after 20 s.
    fn command(&self, end: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.end(end), "env"]);
        command.arg(format!("LD_PRELOAD={}", library().display()));
        command.args(["timeout", "20"]).args(words);
        command
    }

    /// Starts a server at 10.77.1.2 and 10.77.2.2, whose input stays open and whose output is kept. Waits until it has `place`.
    fn server(&self, place: Listening, words: &[&str]) -> Child {
        let mut command = self.command("b", words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(15);
        while !self.is_listening(&place) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        // The library opens the UDP port at `bind`, shortly before `listen`.
        std::thread::sleep(Duration::from_millis(300));
        child
    }

    fn is_listening(&self, place: &Listening) -> bool {
        let (tables, port) = match place {
            Listening::Sctp => (["/proc/net/udp", "/proc/net/udp6"], ":26AB "),
            Listening::Iperf => (["/proc/net/tcp", "/proc/net/tcp6"], ":1451 "),
        };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.end("b"), "cat"]).args(tables);
        text(&command.output_in_time().stdout).contains(port)
    }

    fn cut_first_link(&self) {
        ip(&["-n", &self.end("a"), "link", "set", "l1", "down"]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for end in ["a", "b"] {
            let _ = Command::new("ip").args(["netns", "del", &self.end(end)]).output();
        }
    }
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "ip {words:?}: {}", text(&output.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn expect_success(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Waits until a file has both texts, and returns what it has then.
fn heard(file: &Path, expected: [&str; 2]) -> String {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let content = text(&std::fs::read(file).unwrap_or_default());
        if expected.iter().all(|words| content.contains(words)) || Instant::now() > deadline {
            return content;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends a server that does not end by itself. `timeout` passes the signal on.
fn stop(server: &mut Child) {
    let _ = Command::new("kill").arg(server.id().to_string()).status();
    server.wait().unwrap();
}

fn lksctp() -> Result<(), String> {
    let header = "/usr/include/netinet/sctp.h";
    let found = Path::new(header).is_file();
    found
        .then_some(())
        .ok_or_else(|| format!("{header} is missing (Debian package libsctp-dev)"))
}

/// Compiles a test program of this folder.
fn compile(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(format!("{name}.c"));
    // Two tests may compile the same one at the same time.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let to = std::env::current_exe()
        .unwrap()
        .with_file_name(format!("sockets-{name}-{count}"));
    let mut command = Command::new("cc");
    command
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&to)
        .arg(source)
        .arg("-lsctp");
    expect_success(&command.output_in_time());
    to
}

#[test]
fn one_to_one_calls_return_what_linux_returns() {
    needs!(whimbrel_testkit::namespaces());
    needs!(lksctp());
    let network = Network::new("one");
    let program = compile("one_to_one");
    let program = program.to_str().unwrap();
    let server = network.server(Listening::Sctp, &[program, "server"]);
    expect_success(&network.command("a", &[program, "client", "10.77.1.2"]).output_in_time());
    expect_success(&finish(server));
}

#[test]
fn containers_may_refuse_system_calls() {
    needs!(whimbrel_testkit::namespaces());
    needs!(lksctp());
    let network = Network::new("deny");
    let (deny, program) = (compile("deny"), compile("one_to_one"));
    let [deny, program] = [&deny, &program].map(|path| path.to_str().unwrap());
    let server = network.server(Listening::Sctp, &[deny, program, "server"]);
    expect_success(
        &network
            .command("a", &[deny, program, "client", "10.77.1.2"])
            .output_in_time(),
    );
    expect_success(&finish(server));
}

#[test]
fn one_to_many_loses_nothing_silently() {
    needs!(whimbrel_testkit::namespaces());
    needs!(lksctp());
    let network = Network::new("many");
    let program = compile("one_to_many");
    let program = program.to_str().unwrap();
    let server = network.server(Listening::Sctp, &[program, "server"]);
    expect_success(&network.command("a", &[program, "client", "10.77.1.2"]).output_in_time());
    expect_success(&finish(server));
}

#[test]
fn ncat_delivers_and_closes() {
    needs!(whimbrel_testkit::namespaces());
    needs!(program("ncat", "ncat"));
    let network = Network::new("ncat");
    let mut server = network.server(Listening::Sctp, &["ncat", "--sctp", "--recv-only", "-l", "5001"]);
    let script = "echo over two networks | ncat --sctp --send-only 10.77.1.2 5001";
    expect_success(&network.command("a", &["sh", "-c", script]).output_in_time());
    // It ends with its peer, not with its input.
    server.wait().unwrap();
    assert_eq!(text(&finish(server).stdout), "over two networks\n");
}

#[test]
fn socat_delivers_a_file_although_a_link_is_cut() {
    needs!(whimbrel_testkit::namespaces());
    needs!(program("socat", "socat"));
    let network = Network::new("socat");
    let server = network.server(
        Listening::Sctp,
        &["sh", "-c", "socat -u SCTP-LISTEN:5002 - | sha256sum"],
    );
    let script =
        "(for part in 1 2 3 4 5 6; do head -c 2000000 /dev/zero; sleep 0.3; done) | socat -u - SCTP:10.77.1.2:5002";
    let client = network.command("a", &["sh", "-c", script]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(800));
    network.cut_first_link();
    expect_success(&finish(client));
    let expected = Command::new("sh")
        .args(["-c", "head -c 12000000 /dev/zero | sha256sum"])
        .output_in_time();
    assert_eq!(text(&finish(server).stdout), text(&expected.stdout));
}

#[test]
fn iperf3_goes_on_when_the_other_link_is_cut() {
    needs!(whimbrel_testkit::namespaces());
    needs!(program("iperf3", "iperf3"));
    let network = Network::new("iperf3");
    let server = network.server(Listening::Iperf, &["iperf3", "-s", "-1"]);
    // The control connection is TCP and uses the second link.
    let words = ["iperf3", "--sctp", "-c", "10.77.2.2", "-t", "3"];
    let client = network
        .command("a", &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    network.cut_first_link();
    let output = finish(client);
    expect_success(&output);
    assert!(text(&output.stdout).contains("iperf Done."), "{}", text(&output.stdout));
    expect_success(&finish(server));
}

#[test]
fn sctp_darn_and_sctp_test_exchange_messages_in_one_to_many_style() {
    needs!(whimbrel_testkit::namespaces());
    needs!(program("sctp_darn", "lksctp-tools"));
    needs!(program("sctp_test", "lksctp-tools"));
    needs!(program("script", "bsdutils"));
    let network = Network::new("lksctp");
    // Both servers never end by themselves, and show what they hear at once on a terminal only.
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().join("shown");
    let on_terminal = |command: &str| {
        // A pipe without a reader would stop the server.
        let script = format!("exec script -qfc '{command}' {} > /dev/null", shown.display());
        network.server(Listening::Sctp, &["sh", "-c", &script])
    };
    let mut server = on_terminal("sctp_darn -H 10.77.1.2 -B 10.77.2.2 -P 5003 -l");
    let script = "(sleep 1; echo over several paths; sleep 1) | sctp_darn -H 10.77.1.1 -B 10.77.2.1 -P 5004 -h 10.77.1.2 -p 5003 -s";
    network.command("a", &["sh", "-c", script]).output_in_time();
    let expected = ["over several paths", "COMM_UP"];
    let content = heard(&shown, expected);
    assert!(expected.iter().all(|words| content.contains(words)), "{content}");
    stop(&mut server);

    let mut server = on_terminal("sctp_test -H 10.77.1.2 -P 5005 -l");
    let words = [
        "sctp_test",
        "-H",
        "10.77.1.1",
        "-P",
        "5006",
        "-h",
        "10.77.1.2",
        "-p",
        "5005",
        "-s",
        "-c",
        "5",
        "-x",
        "50",
    ];
    expect_success(&network.command("a", &words).output_in_time());
    let expected = ["Data 32768 bytes", "SHUTDOWN_COMPLETE"];
    let content = heard(&shown, expected);
    assert!(expected.iter().all(|words| content.contains(words)), "{content}");
    stop(&mut server);
}
