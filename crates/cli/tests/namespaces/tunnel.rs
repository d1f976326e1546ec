//! `tunnel` over two emulated radios, one of which is cut.

use whimbrel_testkit::{namespaces, needs, program};

use crate::support::{Done, Lab, WHIMBREL, alone, between};
use crate::tcp;

const WIFI: &str = r#"name = "wifi", rate = "10 Mbit/s", delay = "5 ms", schedule = [{ at = "2 s", up = false }]"#;
const LTE: &str = r#"name = "lte", rate = "10 Mbit/s", delay = "20 ms""#;

/// The addresses of both ends.
const SERVER: &str = "10.0.0.2,10.1.0.2";
const CLIENT: &str = "10.0.0.1,10.1.0.1";

/// A command that waits until a server listens at this address. Any SCTP peer answers a ping.
fn ready(server: &str) -> String {
    format!("until {WHIMBREL} ping -q -c 1 -W '1 s' {server} > /dev/null 2>&1; do sleep 0.1; done")
}

/// A command that waits until the other end of a tunnel answers.
fn answers(addr: &str) -> String {
    format!("until ping -q -c 1 -W 1 {addr} > /dev/null; do sleep 0.1; done")
}

/// Arguments for an emulation with these programs at the server, and this script at the client.
fn arguments<'a>(option: &'a str, servers: &'a [String; 2], script: &'a str) -> [&'a str; 11] {
    let [one, other] = servers;
    [
        option, "--run", one, "--run", other, "--at", "client", "--", "sh", "-c", script,
    ]
}

/// Runs a tunnel in this lab, and a TCP transfer of 6 MB, which takes longer than both links last.
fn transfer(test: &str, server: &str, client: &str, listen: &str, connect: &str) {
    let _alone = alone();
    let lab = Lab::new(test, &[WIFI, LTE]);
    let servers = [
        format!("server: {WHIMBREL} tunnel --server --listen {SERVER} {server}"),
        format!("server: {}", tcp::command(&format!("server {listen}"))),
    ];
    let script = format!(
        "{}; {WHIMBREL} tunnel {SERVER} --local {CLIENT} {client} & {}",
        ready(SERVER),
        tcp::command(&format!("client {connect} 6000000"))
    );
    let done = lab.run(&arguments("--late=1 s", &servers, &script)).ok();
    assert!(done.out.contains("received 6000000 bytes"), "{}{}", done.out, done.err);
    assert!(
        done.err.contains("does not answer; data goes over other paths"),
        "{}",
        done.err
    );
}

#[test]
fn a_forwarded_connection_survives_the_loss_of_a_radio() {
    needs!(namespaces());
    transfer(
        "fwd",
        "--allow 127.0.0.1:7000",
        "--forward 7001:127.0.0.1:7000",
        "127.0.0.1:7000",
        "127.0.0.1:7001",
    );
}

#[test]
fn a_connection_through_the_tun_device_survives_the_loss_of_a_radio() {
    needs!(namespaces());
    transfer(
        "tun",
        "--tun 10.9.0.1/24",
        "--tun 10.9.0.2/24",
        "0.0.0.0:7000",
        "10.9.0.1:7000",
    );
}

/// Bytes of a transfer over two lines.
const LONG: f64 = 25e6;

/// Carries a TCP connection with CUBIC over two lines of 20 Mbit/s, the second with this delay, by these programs at the server and the client. One
/// line has 18.4 Mbit/s without the headers. BBR keeps its queue too short for a slower line.
fn over_two_lines(test: &str, delay: &str, at_server: &str, at_client: &str) {
    needs!(namespaces());
    let line = |name: &str, delay: &str| {
        format!(
            r#"name = "{name}", rate = "20 Mbit/s", delay = "{delay}", queue = {{ kind = "drop-tail", packets = 200 }}"#
        )
    };
    let lab = Lab::new(test, &[&line("dsl", "10 ms"), &line("usb", delay)]);
    let servers = [
        format!("server: {WHIMBREL} tunnel --server --listen {SERVER} --tun 10.9.0.1/24"),
        format!("server: {}", tcp::command(at_server)),
    ];
    let script = format!(
        "{}; {WHIMBREL} tunnel {SERVER} --local {CLIENT} --tun 10.9.0.2/24 & {}; {}",
        ready(SERVER),
        answers("10.9.0.1"),
        tcp::command(at_client)
    );
    let done = needs!(lab.measure(&arguments("--quiet", &servers, &script))).ok();
    let seconds: f64 = between(&done.out, &format!("received {LONG} bytes in "), " s.")
        .parse()
        .unwrap();
    let rate = LONG * 8.0 / seconds / 1e6;
    assert!(rate > 27.0, "{rate} Mbit/s");
}

// Without the round-trip time of the path of the handshake, data from the server takes the other path.
#[test]
fn a_download_through_the_tun_device_uses_both_lines() {
    over_two_lines(
        "down",
        "10 ms",
        &format!("client 10.9.0.2:7000 {LONG} cubic"),
        "server 0.0.0.0:7000",
    );
}

// The paths overtake each other.
#[test]
fn an_upload_through_the_tun_device_uses_a_line_that_is_slower() {
    over_two_lines(
        "up",
        "40 ms",
        "server 0.0.0.0:7000",
        &format!("client 10.9.0.1:7000 {LONG} cubic"),
    );
}

#[test]
fn packets_with_other_addresses_do_not_leave_the_tunnel() {
    needs!(namespaces());
    needs!(program("ip", "iproute2"));
    needs!(program("ping", "iputils-ping"));
    let _alone = alone();
    let lab = Lab::new("spoof", &[LTE]);
    // The server has a route to the other address: without the filter it would answer.
    let server = format!(
        "server: {WHIMBREL} tunnel --server --listen 10.0.0.2 --tun 10.9.0.1/24 & \
         until ip route add 10.8.0.0/24 dev tun0; do sleep 0.1; done; wait"
    );
    let script = format!(
        "{}; {WHIMBREL} tunnel 10.0.0.2 --tun 10.9.0.2/24 & \
         until ip addr add 10.8.0.2/32 dev tun0; do sleep 0.1; done; {}; \
         ping -c 3 -W 3 10.9.0.1 && ! ping -c 3 -W 1 -I 10.8.0.2 10.9.0.1",
        ready("10.0.0.2"),
        answers("10.9.0.1")
    );
    lab.run(&[
        "--quiet", "--late", "1 s", "--run", &server, "--at", "client", "--", "sh", "-c", &script,
    ])
    .ok();
}

/// Two clients with a link each.
const CLIENTS: &str = r#"
node = [{ name = "one" }, { name = "two" }, { name = "server" }]
link = [
    { between = ["one", "server"], name = "a", rate = "10 Mbit/s", delay = "5 ms" },
    { between = ["two", "server"], name = "b", rate = "10 Mbit/s", delay = "5 ms" },
]
flow = [{ name = "data", from = "one", to = "server" }]
"#;

/// Runs a server of both, and a script at each of them until that of `one` ends.
fn with_clients(test: &str, one: &str, two: &str) -> (Lab, Done) {
    let lab = Lab::with(test, CLIENTS);
    let server = format!("server: {WHIMBREL} tunnel --server --listen {SERVER} --tun 10.9.0.1/24,fd00:9::1/64");
    let two = format!("two: {two}");
    let done = lab.run(&[
        "--late", "1 s", "--run", &server, "--run", &two, "--at", "one", "--", "sh", "-c", one,
    ]);
    (lab, done)
}

#[test]
fn several_clients_have_an_address_each() {
    needs!(namespaces());
    needs!(program("ping", "iputils-ping"));
    let _alone = alone();
    // It pings until the other has been the thief.
    let one = format!(
        "{}; {WHIMBREL} tunnel 10.0.0.2 --tun 10.9.0.2/24,fd00:9::2/64 & {}; touch is-up; \
         ping -q -c 5 -i 0.2 fd00:9::1 > six; \
         until [ -e is-over ]; do ping -q -c 10 -i 0.2 10.9.0.1 >> one; done",
        ready("10.0.0.2"),
        answers("10.9.0.1")
    );
    // It comes later, leaves, and comes with the address of the first.
    let two = format!(
        "until [ -e is-up ]; do sleep 0.1; done; \
         {WHIMBREL} tunnel 10.1.0.2 --tun 10.9.0.3/24 & P=$!; {}; ping -q -c 10 -i 0.2 10.9.0.1 > two; \
         kill -INT $P; wait $P; {WHIMBREL} tunnel 10.1.0.2 --tun 10.9.0.2/24 2> said & \
         until grep -q connected said; do sleep 0.1; done; \
         ping -q -c 5 -i 0.2 -W 1 10.9.0.1 > thief; touch is-over; sleep 100",
        answers("10.9.0.1")
    );
    let (lab, done) = with_clients("many", &one, &two);
    let done = done.ok();
    for (file, loss) in [("one", "0%"), ("two", "0%"), ("six", "0%"), ("thief", "100%")] {
        let text = std::fs::read_to_string(lab.path(file)).unwrap();
        let mut losses = text.lines().filter(|line| line.contains(" packet loss"));
        assert!(
            losses.all(|line| line.contains(&format!(" {loss} packet loss"))) && text.contains(" packet loss"),
            "{file}: {text}{}",
            done.err
        );
    }
    assert!(
        done.err
            .contains("packets from 10.9.0.2 are discarded: the address belongs to another client"),
        "{}",
        done.err
    );
}

#[test]
fn a_client_that_was_killed_gets_its_address_back() {
    needs!(namespaces());
    needs!(program("ping", "iputils-ping"));
    let _alone = alone();
    let start = format!("{WHIMBREL} tunnel 10.0.0.2 --tun 10.9.0.2/24 &");
    let one = format!(
        "{}; {start} P=$!; {}; ping -c 3 -W 3 10.9.0.1 || exit 9; kill -KILL $P; wait $P; {start} \
         for n in $(seq 30); do sleep 0.5; ping -c 1 -W 1 10.9.0.1 && exit 0; done; exit 8",
        ready("10.0.0.2"),
        answers("10.9.0.1")
    );
    let (_, done) = with_clients("killed", &one, "sleep 100");
    done.ok();
}

/// A command that runs a tunnel in the background, with its messages and its exit code in the files NAME and NAME.code.
fn recorded(name: &str, args: &str) -> String {
    format!("{{ timeout 60 {WHIMBREL} tunnel {args} 2> {name}; echo $? > {name}.code; }} &")
}

/// Deletes the TUN device of one end. Returns the messages and the exit code of this end, and the messages of the other one.
fn without_device(test: &str, at_server: bool) -> (String, String, String) {
    let _alone = alone();
    let lab = Lab::new(test, &[LTE]);
    let delete = "ip link del tun0; until [ -s END.code ]; do sleep 0.1; done";
    let (end, other) = if at_server {
        ("server", "client")
    } else {
        ("client", "server")
    };
    let delete = delete.replace("END", end);
    let at = |here: &str| if end == here { delete.as_str() } else { "true" };
    let server = format!(
        "server: {} until [ -e is-up ]; do sleep 0.1; done; {}; sleep 100",
        recorded("server", "--server --listen 10.0.0.2 --tun 10.9.0.1/24"),
        at("server")
    );
    let client = format!(
        "{}; {} {}; touch is-up; {}; \
         for n in $(seq 300); do grep -q 'TUN device of the {end} has failed' {other} && [ -s {end}.code ] && exit 0; sleep 0.1; done; exit 9",
        ready("10.0.0.2"),
        recorded("client", "10.0.0.2 --tun 10.9.0.2/24"),
        answers("10.9.0.1"),
        at("client")
    );
    let done = lab.run(&[
        "--quiet", "--late", "1 s", "--run", &server, "--at", "client", "--", "sh", "-c", &client,
    ]);
    let read = |file: &str| std::fs::read_to_string(lab.path(file)).unwrap_or_default();
    let messages = (read(end), read(&format!("{end}.code")), read(other));
    assert_eq!(done.code, 0, "{messages:?}{}", done.err);
    messages
}

#[test]
fn a_client_whose_tun_device_is_deleted_ends_with_an_error() {
    needs!(namespaces());
    needs!(program("ip", "iproute2"));
    needs!(program("ping", "iputils-ping"));
    let (client, code, server) = without_device("gone-c", false);
    assert_eq!(code, "1\n", "{client}");
    let errors: Vec<_> = client.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(
        matches!(errors[..], [error] if error.contains("the TUN device tun0 was removed")),
        "{client}"
    );
    assert!(!client.contains("trying again"), "{client}");
    assert_eq!(
        server.matches("the TUN device of the client has failed").count(),
        1,
        "{server}"
    );
}

#[test]
fn a_server_whose_tun_device_is_deleted_ends_with_an_error() {
    needs!(namespaces());
    needs!(program("ip", "iproute2"));
    needs!(program("ping", "iputils-ping"));
    let (server, code, client) = without_device("gone-s", true);
    assert_eq!(code, "1\n", "{server}");
    let errors: Vec<_> = server.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(
        matches!(errors[..], [error] if error.contains("the TUN device tun0 was removed")),
        "{server}"
    );
    assert!(client.contains("trying again"), "{client}");
}
