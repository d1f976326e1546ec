//! A link with a small MTU between two routers: programs learn it from ICMP messages, as in real networks.

use whimbrel_testkit::{namespaces, needs, program};

use super::support::{Done, Lab, WHIMBREL, alone};
use super::tcp;

const NARROW: &str = r#"
node = [{ name = "client" }, { name = "near" }, { name = "far" }, { name = "server" }]
link = [
  { name = "home", between = ["client", "near"], rate = "100 Mbit/s", delay = "1 ms" },
  { name = "tunnel", between = ["near", "far"], rate = "50 Mbit/s", delay = "5 ms", mtu = 1300 },
  { name = "office", between = ["far", "server"], rate = "100 Mbit/s", delay = "1 ms" },
]
flow = [{ name = "data", from = "client", to = "server" }]
"#;
const SERVER: &str = "10.2.0.2";
const SERVER_V6: &str = "fd00::a02:2";

/// Returns how many packets towards the server were too long for the narrow link.
fn too_big(done: &Done) -> u64 {
    let report = done.report();
    let drops = &report["links"][2]["drops"]["too-big"];
    drops.as_u64().unwrap_or_else(|| panic!("{report:#}"))
}

/// Runs a script at the client, and a command at the server.
fn run(test: &str, server: &str, client: &str) -> (Lab, Done) {
    let _alone = alone();
    let lab = Lab::with(test, NARROW);
    let server = format!("server: {server}");
    let done = lab.run(&[
        "--late", "1 s", "--json", "--run", &server, "--at", "client", "--", "sh", "-c", client,
    ]);
    (lab, done)
}

#[test]
fn routers_report_long_packets_and_cut_those_that_may_be_cut() {
    needs!(namespaces());
    needs!(program("ping", "iputils-ping"));
    let script = format!(
        // The kernel cuts all packets itself once it knows the MTU.
        "ping -c 2 -i 0.2 -M dont -s 1400 {SERVER} > cut; ping -c 2 -i 0.2 -M do -s 1400 {SERVER} > whole 2>&1; \
         until ping -c 1 -W 1 {SERVER_V6} > up; do sleep 0.1; done; ping -c 2 -i 0.2 -s 1400 {SERVER_V6} > six 2>&1; true"
    );
    let (lab, done) = run("mtu", "sleep 100", &script);
    let report = done.ok().report();
    // Echo requests and replies are cut; three of the others are reported, or four.
    let (taken, given) = (&report["packets"]["in"], &report["packets"]["out"]);
    assert!(given.as_u64().unwrap() + 5 > taken.as_u64().unwrap(), "{report:#}");
    let text = |file| std::fs::read_to_string(lab.path(file)).unwrap();
    let (whole, cut, six) = (text("whole"), text("cut"), text("six"));
    assert!(
        whole.contains("From 10.1.0.1") && whole.contains("mtu = 1300"),
        "{whole}"
    );
    assert!(cut.contains(" 0% packet loss"), "{cut}");
    assert!(
        six.contains("From fd00::a01:1") && six.contains("Packet too big: mtu=1300"),
        "{six}"
    );
}

#[test]
fn tcp_of_the_kernel_learns_the_mtu_of_the_path() {
    needs!(namespaces());
    for address in [format!("{SERVER}:4000"), format!("[{SERVER_V6}]:4000")] {
        let server = tcp::command(&format!("server {address}"));
        let client = tcp::command(&format!("client {address} 3000000"));
        // The client's address comes up late by IPv6, and the server's as well.
        let server = format!("until ({server}); do sleep 0.1; done");
        let done = run("mtu-tcp", &server, &client).1.ok();
        assert!(done.out.contains("received 3000000 bytes"), "{}{}", done.out, done.err);
        assert!((1..20).contains(&too_big(&done)), "{}", done.report());
    }
}

#[test]
fn send_learns_the_mtu_of_the_path() {
    needs!(namespaces());
    needs!(program("ping", "iputils-ping"));
    for (address, options) in [(SERVER, ""), (SERVER_V6, ""), (SERVER, "--raw"), (SERVER_V6, "--raw")] {
        let ready = format!("until ping -c 1 -W 1 {address}; do sleep 0.1; done");
        let server = format!("{ready}; {WHIMBREL} recv {options} --listen {address} --once in");
        let client = format!(
            "head -c 3000000 /dev/urandom > file; {ready}; \
             until {WHIMBREL} send {options} file --to {address}; do sleep 0.2; done; cmp file in/file"
        );
        let done = run("mtu-send", &server, &client).1.ok();
        // Three packets of the first window, and what was on its way.
        assert!((1..20).contains(&too_big(&done)), "{}", done.report());
    }
}
