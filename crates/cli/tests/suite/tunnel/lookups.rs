//! Targets whose names are never resolved.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use whimbrel_testkit::process::{LINE_LIMIT, Process, list};
use whimbrel_testkit::{namespaces, needs, program};

use super::hostile::{BASE, CLOSE, OPEN, OPENED, Peer, sink};
use crate::support::{WHIMBREL, in_time};

/// Requests of each hostile client; connections that an association may have.
const REQUESTS: u32 = 300;
const CONNECTIONS: u32 = 256;
const HOSTILE: u32 = 8;
/// Lookups of one client at a time.
const LOOKUPS: usize = 8;

/// A server whose names are resolved by a name server that is silent; files such as /etc/hosts are read first.
fn server(name_server: &str, folder: &std::path::Path) -> Process {
    let resolver = format!("nameserver {name_server}\noptions timeout:30 attempts:5\n");
    std::fs::write(folder.join("resolv.conf"), resolver).expect("written");
    std::fs::write(folder.join("nsswitch.conf"), "hosts: files dns\n").expect("written");
    let script = format!(
        "mount --bind resolv.conf /etc/resolv.conf && mount --bind nsswitch.conf /etc/nsswitch.conf && \
         exec {WHIMBREL} tunnel --server --listen 127.0.2.1:0 --allow any"
    );
    let mut unshare = Command::new("unshare");
    Process::start(unshare.args(["--mount", "sh", "-c", &script]).current_dir(folder))
}

/// The names that the name server was asked for, once there are this many of them.
fn names(socket: &UdpSocket, wanted: usize) -> BTreeSet<Vec<u8>> {
    let (mut names, mut buffer, start) = (BTreeSet::new(), [0; 1500], Instant::now());
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a socket");
    while names.len() < wanted {
        assert!(start.elapsed() < LINE_LIMIT, "{} names", names.len());
        if let Ok(len) = socket.recv(&mut buffer) {
            // The first label, which has its length before it, follows a header of 12 bytes.
            let label = &buffer[13..len];
            names.insert(label[..usize::from(buffer[12])].to_vec());
        }
    }
    names
}

/// Waits for an answer to a request: true if a connection has been made.
async fn is_opened(peer: &Peer) -> bool {
    loop {
        let message = in_time(peer.association.recv()).await;
        match message.expect("open").expect("a message").ppid.checked_sub(BASE) {
            Some(OPENED) => return true,
            Some(CLOSE) => return false,
            _ => {}
        }
    }
}

#[tokio::test]
async fn clients_whose_names_never_resolve_leave_places_to_others() {
    needs!(namespaces());
    needs!(program("mount", "mount"));
    let socket = needs!(UdpSocket::bind("127.0.9.53:53"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = server("127.0.9.53", folder.path());
    let addrs = list(&server.listening());
    let mut hostile = Vec::new();
    for client in 0..HOSTILE {
        let peer = Peer::with_token(&addrs, u128::from(client).to_be_bytes()).await;
        for channel in 0..REQUESTS {
            let target = format!("n{client}-{channel}.invalid:9");
            peer.send(OPEN, channel, target.as_bytes()).await;
        }
        // Those that wait are bounded.
        for _ in CONNECTIONS..REQUESTS {
            assert!(!is_opened(&peer).await, "there are too many");
        }
        hostile.push(peer);
    }
    let asked = names(&socket, HOSTILE as usize * LOOKUPS);
    assert_eq!(asked.len(), HOSTILE as usize * LOOKUPS);
    let peer = Peer::with_token(&addrs, [77; 16]).await;
    let port = sink();
    let port = port.rsplit_once(':').expect("a port").1;
    // One after the other, as each client has one place at least.
    for channel in 0..3 {
        peer.send(OPEN, channel, format!("localhost:{port}").as_bytes()).await;
        assert!(is_opened(&peer).await, "a name that the server knows");
    }
}
