//! Both ends open an association at once; the guest starts again; long messages; probes of the path MTU; extensions that the guest does not have.

use whimbrel_proto::{AssociationConfig, CloseReason, Message, MessagePayload, PathState};
use whimbrel_wire::ChunkType;

use super::guest::Stack;
use super::host::{self, Host, PORT};
use super::{end, talk};

/// RFC 9260 §5.2.1: the INITs of both ends meet.
pub(super) fn both_ends_open_it_at_once(stack: Stack) {
    let mut host = Host::start(stack);
    let id = host.collide(7);
    assert_eq!(host.answer(), "connected");
    talk(&mut host, id);
    end(&mut host, id);
}

/// The guest starts again, and takes up the same association (RFC 9260 §5.2.4 A).
pub(super) fn we_notice_its_restart(stack: Stack) {
    let mut host = Host::start(stack);
    let connect = format!("connect {PORT} 10.1.0.1 10.2.0.1");
    host.ask("set local_port 7");
    host.command(&connect);
    let id = host.connected(true);
    assert_eq!(host.answer(), "connected");
    talk(&mut host, id);
    host.restart_guest();
    host.ask("set local_port 7");
    host.command(&connect);
    host.restarted();
    assert_eq!(host.answer(), "connected");
    talk(&mut host, id);
    host.command("shutdown");
    assert_eq!(host.closed(id), CloseReason::Graceful);
    host.answer();
}

pub(super) fn messages_of_1_byte_to_1_mib_come_back(stack: Stack) {
    let config = AssociationConfig {
        send_buffer: 4 << 20,
        recv_buffer: 4 << 20,
        ..host::config()
    };
    let mut host = Host::with(stack, 2, config);
    host.ask("set send_buffer 2000000");
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    for len in [1, 2, 1000, 1440, 1452, 1453, 65_536, 1 << 20] {
        for unordered in [false, true] {
            let data: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            let message = Message {
                unordered,
                payload: MessagePayload::Bytes(data.clone().into()),
                ..Message::zeros(3, 1)
            };
            host.command("echo 1");
            assert!(host.send(id, message));
            let (received, back) = host.wait_for("the echo", |host| host.recv(id));
            assert_eq!((received.stream, received.unordered), (3, unordered), "{len}");
            assert!(back == data, "{len} bytes came back changed");
            host.answer();
        }
    }
    end(&mut host, id);
}

/// It skips the padding of probes, and returns their HEARTBEATs (RFC 8899 §6.2.1.2).
pub(super) fn probes_of_the_path_mtu_are_answered(stack: Stack) {
    let config = AssociationConfig {
        mtu: 1300,
        max_mtu: Some(1500),
        ..host::config()
    };
    let mut host = Host::with(stack, 2, config);
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    talk(&mut host, id);
    host.wait_for("the path MTU", |host| {
        let association = host.endpoint.association(id).expect("up");
        let mut paths = association.paths().filter(|path| path.state == PathState::Active);
        paths.all(|path| path.mtu == 1500).then_some(())
    });
    assert!(host.chunks[0].contains(&ChunkType::PAD));
    end(&mut host, id);
}

/// RFC 9260 §3.2.1: parameters of unknown types that ask to be skipped; without agreement there are no TIMESTAMP chunks.
pub(super) fn our_extensions_are_passed_over(stack: Stack) {
    let config = AssociationConfig {
        eci: Some(true),
        timestamps: Some(true),
        ecn: Some(true),
        ..host::config()
    };
    let mut host = Host::with(stack, 2, config);
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    talk(&mut host, id);
    assert!(!host.chunks[0].contains(&ChunkType::TIMESTAMP));
    end(&mut host, id);
}
