//! The example `browser-download` as a person uses it: in a browser, and with nonsense from the network.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use whimbrel_testkit::browser::playwright;
use whimbrel_testkit::process::{InTime as _, Lines, Process, until};
use whimbrel_testkit::{needs, program};

/// Size of the download in MB.
const SIZE: &str = "50";

/// The program, which `cargo test` builds before it runs all tests.
fn example() -> Command {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(Path::parent).expect("the folder of the profile");
    let path = profile.join(format!("examples/browser-download{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "first: cargo build --example browser-download");
    Command::new(path)
}

/// The program, while it serves.
struct Server {
    process: Process,
    lines: Lines,
    /// Where it listens on TCP.
    place: String,
}

impl Server {
    fn start() -> Self {
        let mut process = Process::start(example().args(["--port", "0", "--mb", SIZE]).stdout(Stdio::piped()));
        let mut lines = Lines::of(process.child.stdout.take().expect("a pipe"));
        let line = lines.after("open http://");
        let place = line.split('/').next().unwrap_or_default().to_owned();
        Server { process, lines, place }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.place).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout");
        stream
    }

    /// Sends this and returns the response.
    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may refuse before everything is sent.
        let _ = stream.write_all(bytes);
        answer(&mut stream)
    }

    /// Sends an offer. Returns the response.
    fn offer(&self, sdp: &str) -> String {
        self.send(self.post(sdp).as_bytes())
    }

    fn post(&self, sdp: &str) -> String {
        let (place, len) = (&self.place, sdp.len());
        format!(
            "POST /offer HTTP/1.1\r\nHost: {place}\r\nContent-Type: application/sdp\r\nContent-Length: {len}\r\n\r\n{sdp}"
        )
    }
}

fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn assert_status(answer: &str, status: u16) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")),
        "{status} is expected: {answer:?}"
    );
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_browser_downloads_chats_and_connects_again() {
    let chromium = needs!(program("chromium", "chromium"));
    let node = needs!(program("node", "nodejs"));
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    needs!(playwright(&web));
    let mut server = Server::start();
    let url = format!("http://{}/", server.place);
    let mut driver = Command::new(node);
    driver.arg(web.join("browser.mjs")).arg(chromium).args([&url, SIZE]);
    let Output { status, stdout, stderr } = driver.output_in_time();
    assert!(status.success(), "{}\n{}", text(&stdout), text(&stderr));
    for look in ["light", "dark"] {
        assert!(
            text(&stdout).contains(&format!("ok {look}: closed")),
            "{}",
            text(&stdout)
        );
    }

    // The page connects twice for each look.
    server.lines.after("peer 1: connected");
    for label in ["download", "chat-ordered", "chat-unordered", "chat-lossy"] {
        server.lines.after(&format!("peer 1: channel {label:?} opened"));
    }
    server.lines.after("peer 1: download of 50 MB started");
    let done = server.lines.after("peer 1: download done in ");
    assert!(done.contains(" Mbit/s, the content is right, "), "{done}");
    let queued = done.rsplit(", ").next().and_then(|words| words.split(' ').next());
    let queued: usize = queued.and_then(|number| number.parse().ok()).expect("a number of KiB");
    assert!((1..=1024).contains(&queued), "{done}");
    let closed = server.lines.after("peer 1: closed after ");
    assert!(closed.ends_with(" s, 3 messages echoed: by the browser"), "{closed}");
    server.lines.after("peer 2: download done in ");
    server.lines.after("peer 3: closed after ");
    server.lines.after("peer 4: download done in ");
    // Its page was closed during a download, and says nothing any more.
    let silent = server.lines.after("peer 4: closed after ");
    assert!(
        silent.ends_with("the browser is silent") || silent.ends_with("by the browser"),
        "{silent}"
    );
    assert!(
        server.process.child.try_wait().expect("a child").is_none(),
        "it still serves"
    );
}

/// An offer of data channels. No browser belongs to it.
const OFFER: &str = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
    m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
    a=ice-pwd:abcdefghijklmnopqrstuvwx\r\na=fingerprint:sha-256 \
    00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF\r\n\
    a=setup:actpass\r\na=mid:0\r\na=sctp-port:5000\r\na=max-message-size:262144\r\n";

/// The port of the candidate in an answer.
fn udp_port(answer: &str) -> u16 {
    let line = answer.lines().find_map(|line| line.strip_prefix("a=candidate:"));
    let port = line.and_then(|line| line.split(' ').nth(5));
    port.and_then(|port| port.parse().ok())
        .unwrap_or_else(|| panic!("no candidate: {answer}"))
}

#[test]
fn nonsense_is_refused_and_the_server_goes_on() {
    let mut server = Server::start();
    let place = server.place.clone();
    assert_status(&server.send(&[0xff; 100_000]), 431);
    assert_status(&server.send(b"\xff\xfe\r\n\r\n"), 400);
    assert_status(&server.send(b"GET /\r\n\r\n"), 400);
    assert_status(&server.send(b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"), 421);
    assert_status(
        &server.send(format!("GET /../x HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes()),
        404,
    );
    assert_status(
        &server.send(format!("PUT / HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes()),
        405,
    );
    let head = |field: &str| {
        format!("POST /offer HTTP/1.1\r\nHost: {place}\r\nContent-Type: application/sdp\r\n{field}\r\n\r\n")
    };
    assert_status(
        &server.send(head("Content-Length: 18446744073709551616").as_bytes()),
        400,
    );
    assert_status(&server.send(head("Transfer-Encoding: chunked").as_bytes()), 411);
    let mut long = head("Content-Length: 100000000").into_bytes();
    long.resize(100_000_000, b'x');
    assert_status(&server.send(&long), 413);
    // It does not wait for the rest without an end.
    assert_status(&server.send(head("Content-Length: 10").as_bytes()), 408);
    let form = server.post(OFFER).replace("application/sdp", "text/plain");
    assert_status(&server.send(form.as_bytes()), 415);

    let begin = OFFER.split("a=fingerprint").next().unwrap_or_default();
    for wrong in ["", "nonsense", "v=0\r\n", begin] {
        assert_status(&server.offer(wrong), 400);
    }
    // Each line left out or damaged: it is refused, or no browser connects.
    for (at, line) in OFFER.match_indices("\r\n") {
        let begin = OFFER[..at].rfind('\n').map_or(0, |before| before + 1);
        let without = [&OFFER[..begin], &OFFER[at + line.len()..]].concat();
        let damaged = [
            &OFFER[..at.saturating_sub(2)],
            "\u{2602}9999999999999999999",
            &OFFER[at..],
        ]
        .concat();
        for offer in [without, damaged] {
            let answer = server.offer(&offer);
            assert!(
                ["200", "400", "503"]
                    .iter()
                    .any(|status| answer[9..].starts_with(status)),
                "{offer}\n{answer}"
            );
        }
    }
    // Connections that send nothing. The server notices their end soon.
    let idle: Vec<_> = (0..100).map(|_| server.connect()).collect();
    drop(idle);
    let get = format!("GET / HTTP/1.1\r\nHost: {place}\r\n\r\n");
    until("the page is served", || {
        server.send(get.as_bytes()).starts_with("HTTP/1.1 200 ")
    });
    assert!(
        server.process.child.try_wait().expect("a child").is_none(),
        "it still serves"
    );
    // Not SIGINT: programs in the background of a shell ignore it.
    server.process.signal("-TERM");
    let rest = server.lines.rest();
    assert!(rest.contains("refused, "), "{rest}");
    let errors = server.process.errors.rest();
    assert!(errors.is_empty(), "{errors}");
}

#[test]
fn peers_are_limited_and_leave_when_they_do_not_connect() {
    let mut server = Server::start();
    let answers: Vec<_> = (0..17).map(|_| server.offer(OFFER)).collect();
    for answer in &answers[..16] {
        assert_status(answer, 200);
    }
    assert_status(&answers[16], 503);
    // Datagrams of all kinds: STUN, DTLS, RTP, and none of them.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = udp_port(&answers[0]);
    for first in 0..=255 {
        for len in [0, 1, 12, 20, 200, 1500, 60_000] {
            let mut datagram = vec![first; len];
            if len > 8 {
                // The cookie of STUN.
                datagram[4..8].copy_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
            }
            let _ = socket.send_to(&datagram, ("127.0.0.1", port));
        }
    }
    for _ in 0..16 {
        let line = server.lines.after("peer ");
        assert!(line.ends_with("the browser did not connect"), "{line}");
    }
    assert_status(&server.offer(OFFER), 200);
    server.process.signal("-TERM");
    let errors = server.process.errors.rest();
    assert!(errors.is_empty(), "{errors}");
}

#[test]
fn wrong_options_and_a_port_in_use_are_explained() {
    let help = example().arg("--help").output_in_time();
    assert!(help.status.success());
    assert!(text(&help.stdout).contains("--port PORT"));

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("a port").port().to_string();
    let cases: [(&[&str], &str); 8] = [
        (&["--port", &port], "any free one by --port 0"),
        (&["--address", "192.0.2.1"], "an address of this machine"),
        (&["--address", "0.0.0.0"], "an address of this machine"),
        (&["--scheme", "none"], "there is no scheme \"none\""),
        (&["--port", "70000"], "needs a port"),
        (&["--mb=0"], "needs a size"),
        (&["--mb"], "needs a value"),
        (&["--size"], "there is no option \"--size\""),
    ];
    for (args, words) in cases {
        let Output { status, stderr, .. } = example().args(args).output_in_time();
        let errors = text(&stderr);
        assert_eq!(status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.starts_with("error: ") && errors.contains("\nhint: "), "{errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}
