//! A relay between our UDP port and theirs, which may lose datagrams, or hold the first ones of both ends.

use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// What passes between the two ends.
pub(crate) struct Relay {
    /// Its UDP port.
    pub(crate) port: u16,
    /// Types of the first chunks of the packets of both ends: ours, theirs.
    pub(crate) first: Arc<Mutex<[Vec<u8>; 2]>>,
    task: JoinHandle<()>,
}

/// What the relay does to packets.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// One in N packets of either end is lost.
    pub(crate) lose_each: Option<u64>,
    /// The first packets wait until both ends have sent one.
    pub(crate) holds: bool,
}

const FIRST_CHUNK: usize = 12;

impl Relay {
    pub(crate) async fn start(ours: u16, theirs: u16, rules: Rules) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let first = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
        let task = tokio::spawn(carry(socket, [ours, theirs], rules, first.clone()));
        Relay { port, first, task }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(socket: UdpSocket, ports: [u16; 2], rules: Rules, first: Arc<Mutex<[Vec<u8>; 2]>>) {
    let mut buffer = vec![0; 1 << 16];
    let mut counts = [0_u64; 2];
    let mut held = Vec::new();
    while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
        let end = usize::from(from.port() != ports[0]);
        let packet = &buffer[..len];
        first.lock().unwrap()[end].push(packet[FIRST_CHUNK]);
        counts[end] += 1;
        if rules.lose_each.is_some_and(|each| counts[end].is_multiple_of(each)) {
            continue;
        }
        held.push((ports[1 - end], packet.to_vec()));
        if rules.holds && counts.contains(&0) {
            continue;
        }
        for (to, packet) in held.drain(..) {
            let _ = socket.send_to(&packet, ("127.0.0.1", to)).await;
        }
    }
}
