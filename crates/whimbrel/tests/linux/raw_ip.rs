//! The library's raw IP and the SCTP of the kernel. The other tests of this program carry the packets of an endpoint themselves; here a network
//! namespace with two TAP devices, at the other end of the guest's cables, carries those of a stack.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio::time::timeout;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};
use whimbrel::{Association, Listener, Message, PathState, RawIp, Span, Stack as Sctp, StackConfig};
use whimbrel_testkit::{namespaces, needs};

use crate::frame::{self, INTERFACES};
use crate::guest::{Arrival, Guest, Stack};
use crate::host::PORT;
use crate::machine::can_run;
use crate::network::Host;

/// For everything that a test waits for, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(180);
/// The guest's SCTP port.
const THEIRS: u16 = 7;
const MESSAGES: usize = 100;

/// The guest, its answers, and the namespace at the other end of its cables.
struct Network {
    guest: Guest,
    answers: Receiver<String>,
    host: Host,
}

impl Network {
    fn start() -> Self {
        let host = Host::new();
        let devices = host.run(|| async { (0..INTERFACES).map(device).collect::<Vec<_>>() });
        let devices = devices.join().unwrap();
        let mut guest = Guest::boot(Stack::Kernel);
        for (interface, device) in devices.iter().enumerate() {
            let (device, cable) = (device.clone(), guest.cable(interface));
            std::thread::spawn(move || {
                let mut frame = [0; 4096];
                while let Ok(len) = device.recv(&mut frame)
                    && cable.send(&frame[..len]).is_ok()
                {}
            });
        }
        let arrivals = guest.take_arrivals();
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for arrival in arrivals {
                match arrival {
                    Arrival::Frame(interface, frame) => drop(devices[interface].send(&frame)),
                    Arrival::Line(line) => drop(sender.send(line)),
                    Arrival::Off => return,
                }
            }
        });
        let network = Network { guest, answers, host };
        assert_eq!(network.answer(), "= ready");
        network
    }

    fn answer(&self) -> String {
        let answer = self.answers.recv_timeout(PATIENCE);
        answer.unwrap_or_else(|_| panic!("the guest is silent\n{}", self.guest.log()))
    }

    fn ask(&mut self, line: &str) -> String {
        self.guest.write_line(line);
        self.answer()
    }
}

/// A TAP device with one of our addresses.
fn device(interface: usize) -> Arc<SyncDevice> {
    let builder = DeviceBuilder::new().name(format!("cable{interface}")).layer(Layer::L2);
    let address = frame::our_address(interface);
    Arc::new(builder.mtu(1500).ipv4(address, 24, None).build_sync().unwrap())
}

fn config() -> StackConfig {
    let ours = (0..INTERFACES).map(|interface| SocketAddr::new(frame::our_address(interface).into(), 0));
    let mut config = StackConfig {
        port: PORT,
        transport: Some(Arc::new(RawIp)),
        ..StackConfig::local(ours)
    };
    config.association.hb_interval = Span::from_millis(500);
    config
}

/// Waits until both paths are confirmed.
async fn both_paths_come_up(association: &Association) {
    let active = || {
        association
            .paths()
            .iter()
            .filter(|path| path.state == PathState::Active)
            .count()
    };
    let wait = async {
        while active() < INTERFACES {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("{:?}", association.paths()));
}

fn content(number: usize) -> Vec<u8> {
    (0..1 + number * 911 % 9000).map(|at| (at * 7 + number) as u8).collect()
}

#[test]
fn a_stack_opens_an_association_with_the_kernel_over_raw_ip() {
    needs!(namespaces().and_then(|()| can_run(Stack::Kernel).map(|_| ())));
    let mut network = Network::start();
    assert_eq!(network.ask(&format!("listen {THEIRS}")), "= listening");
    let (opened, is_open) = channel();
    let client = network.host.run(move || async move {
        let theirs: [SocketAddr; INTERFACES] =
            std::array::from_fn(|i| (IpAddr::from(frame::their_address(i)), 0).into());
        let stack = Sctp::bind(config()).unwrap();
        let association = timeout(PATIENCE, stack.connect(&theirs, THEIRS))
            .await
            .unwrap()
            .unwrap();
        opened.send(()).unwrap();
        both_paths_come_up(&association).await;
        for number in 0..MESSAGES {
            let message = Message::new(number as u16 % 10, content(number));
            timeout(PATIENCE, association.send(message)).await.unwrap().unwrap();
            let back = timeout(PATIENCE, association.recv()).await.expect("the echo stopped");
            assert!(
                back.unwrap().unwrap().data == content(number),
                "message {number} came back changed"
            );
        }
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
    });
    is_open.recv_timeout(PATIENCE).unwrap();
    assert_eq!(network.ask("accept"), "= accepted");
    let bytes: usize = (0..MESSAGES).map(|number| content(number).len()).sum();
    let echoed = network.ask(&format!("echo {MESSAGES}"));
    assert_eq!(echoed, format!("= echoed {MESSAGES} messages, {bytes} bytes"));
    let ended = network.ask("end");
    // The kernel says both, in any order.
    let ends = ["shutdown complete", "end of data"].map(|end| format!("= {end} after 0 messages"));
    assert!(ends.contains(&ended), "{ended}");
    client.join().unwrap();
}

#[test]
fn the_kernel_opens_an_association_with_a_stack_over_raw_ip() {
    needs!(namespaces().and_then(|()| can_run(Stack::Kernel).map(|_| ())));
    let mut network = Network::start();
    let (ready, is_ready) = channel();
    let server = network.host.run(move || async move {
        let listener = Listener::bind(config()).unwrap();
        ready.send(()).unwrap();
        let association = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let mut received = Vec::new();
        while received.len() < MESSAGES {
            let message = timeout(PATIENCE, association.recv()).await.expect("messages stopped");
            received.push(message.unwrap().unwrap());
        }
        both_paths_come_up(&association).await;
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
        received
    });
    is_ready.recv_timeout(PATIENCE).unwrap();
    let ours: Vec<String> = (0..INTERFACES).map(|i| frame::our_address(i).to_string()).collect();
    assert_eq!(
        network.ask(&format!("connect {PORT} {}", ours.join(" "))),
        "= connected"
    );
    assert!(network.ask(&format!("send {MESSAGES}")).starts_with("= sent"));
    let mut received = server.join().unwrap();
    received.sort_by_key(|message| message.ppid);
    for (number, message) in received.iter().enumerate() {
        assert_eq!(message.ppid, 1_000_000 + number as u32);
        assert!(message.data == content(number), "message {number} has changed");
    }
}
