//! `tunnel` over two emulated radios, one of which is cut.

use whimbrel_testkit::{namespaces, needs, program};

use crate::support::{Lab, WHIMBREL, alone};
use crate::tcp;

const WIFI: &str = r#"name = "wifi", rate = "10 Mbit/s", delay = "5 ms", schedule = [{ at = "2 s", up = false }]"#;
const LTE: &str = r#"name = "lte", rate = "10 Mbit/s", delay = "20 ms""#;

/// The addresses of both ends.
const SERVER: &str = "10.0.0.2,10.1.0.2";
const CLIENT: &str = "10.0.0.1,10.1.0.1";

/// Runs a tunnel in this lab, and a TCP transfer of 6 MB, which takes longer than both links last.
fn transfer(test: &str, server: &str, client: &str, listen: &str, connect: &str) {
    let _alone = alone();
    let lab = Lab::new(test, &[WIFI, LTE]);
    let servers = [
        format!("server: {WHIMBREL} tunnel --server --listen {SERVER} {server}"),
        format!("server: {}", tcp::command(&format!("server {listen}"))),
    ];
    let script = format!(
        "sleep 0.3; {WHIMBREL} tunnel {SERVER} --local {CLIENT} {client} & sleep 0.3; {}",
        tcp::command(&format!("client {connect} 6000000"))
    );
    let done = lab.run(&[
        "--late",
        "1 s",
        "--run",
        &servers[0],
        "--run",
        &servers[1],
        "--at",
        "client",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let done = done.ok();
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

#[test]
fn packets_with_other_addresses_do_not_leave_the_tunnel() {
    needs!(namespaces());
    needs!(program("ip", "iproute2"));
    needs!(program("ping", "iputils-ping"));
    let _alone = alone();
    let lab = Lab::new("spoof", &[LTE]);
    let server = format!("server: {WHIMBREL} tunnel --server --listen 10.0.0.2 --tun 10.9.0.1/24");
    let script = format!(
        "sleep 0.3; {WHIMBREL} tunnel 10.0.0.2 --tun 10.9.0.2/24 & sleep 0.7; ip addr add 10.8.0.2/32 dev tun0; \
         ping -c 1 -W 2 10.9.0.1 && ! ping -c 1 -W 1 -I 10.8.0.2 10.9.0.1"
    );
    lab.run(&[
        "--quiet", "--late", "1 s", "--run", &server, "--at", "client", "--", "sh", "-c", &script,
    ])
    .ok();
}
