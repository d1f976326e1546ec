//! What sockets of raw IP do with single packets.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Type};
use tokio::time::timeout;
use whimbrel::transport::{Arrival, Datagrams, Socket, Transport};
use whimbrel::{Ecn, Listener, RawIp, Stack, StackConfig};
use whimbrel_testkit::{namespaces, needs};

use super::{PATIENCE, PORT, accept, addr, config, connect, exchange};
use crate::network::Host;

const BUFFERS: usize = 4;

/// Receives until as many packets have arrived: their bytes, senders and ECN bits.
async fn receive(socket: &dyn Socket, wanted: usize) -> Vec<(Vec<u8>, SocketAddr, Ecn)> {
    let mut storage = vec![vec![0; 65_536]; BUFFERS];
    let mut packets = Vec::new();
    while packets.len() < wanted {
        let mut arrivals = [Arrival {
            remote: addr("127.0.0.1"),
            len: 0,
            stride: 0,
            ecn: Ecn::NotEct,
        }; BUFFERS];
        let mut buffers: Vec<_> = storage.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let received = std::future::poll_fn(|cx| socket.poll_recv(cx, &mut buffers, &mut arrivals));
        let Ok(count) = timeout(Duration::from_secs(5), received).await else {
            break;
        };
        for (buffer, arrival) in buffers.iter().zip(&arrivals).take(count.unwrap()) {
            assert_eq!(arrival.len, arrival.stride);
            packets.push((buffer[..arrival.len].to_vec(), arrival.remote, arrival.ecn));
        }
    }
    packets
}

async fn send(socket: &dyn Socket, remote: &str, ecn: Ecn, bytes: &[u8], fragment: bool) -> std::io::Result<()> {
    let datagrams = Datagrams {
        remote: addr(remote),
        ecn,
        bytes,
        segment: bytes.len(),
        fragment,
        probes_mtu: false,
    };
    std::future::poll_fn(|cx| socket.poll_send(cx, &datagrams)).await
}

fn bind(ip: &str) -> Box<dyn Socket> {
    RawIp.bind(addr(ip), &StackConfig::default()).unwrap()
}

#[test]
fn packets_arrive_whole_with_their_ecn_bits_and_sender() {
    needs!(namespaces());
    let mut families = vec![("127.0.0.1", "127.0.0.2")];
    let host = Host::new();
    if whimbrel_testkit::ipv6().is_ok() {
        host.add_address("fd09::2/128", "lo");
        families.push(("::1", "fd09::2"));
    } else {
        whimbrel_testkit::not_run_in_part(module_path!(), "no IPv6");
    }
    let done = host.run(move || async move {
        for (ours, theirs) in families {
            let (sender, receiver) = (bind(ours), bind(theirs));
            assert_eq!((sender.local_addr(), receiver.local_addr()), (addr(ours), addr(theirs)));
            assert!(sender.max_segments() > 1, "batches");
            let sent = [
                (vec![1], Ecn::NotEct),
                (vec![2; 12], Ecn::Ect0),
                (vec![3; 1480], Ecn::Ect1),
                ((0..=255).cycle().take(60_000).collect(), Ecn::Ce),
            ];
            for (bytes, ecn) in &sent {
                send(&*sender, theirs, *ecn, bytes, false).await.unwrap();
            }
            let expected = sent.map(|(bytes, ecn)| (bytes, addr(ours), ecn));
            assert!(receive(&*receiver, 4).await == expected, "{theirs}");
        }
    });
    done.join().unwrap();
}

/// Sends packets of this length, but for a shorter last one, by one call.
async fn send_batch(socket: &dyn Socket, remote: &str, ecn: Ecn, packets: &[Vec<u8>]) -> std::io::Result<()> {
    let datagrams = Datagrams {
        remote: addr(remote),
        ecn,
        bytes: &packets.concat(),
        segment: packets[0].len(),
        fragment: false,
        probes_mtu: false,
    };
    std::future::poll_fn(|cx| socket.poll_send(cx, &datagrams)).await
}

/// Packets that are sent by one system call arrive like single ones, also if the system takes some of them only: the link is slow, and the send buffer
/// has room for a few.
#[test]
fn each_packet_of_a_batch_arrives_once_with_its_ecn_bits() {
    needs!(namespaces());
    let (near, far) = (Host::new(), Host::new());
    near.connect(
        "eth0",
        &["10.9.0.1/24", "fd09::1/64"],
        &far,
        "eth0",
        &["10.9.0.2/24", "fd09::2/64"],
    );
    let families = match whimbrel_testkit::ipv6() {
        Ok(()) => vec![("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")],
        Err(_) => vec![("10.9.0.1", "10.9.0.2")],
    };
    let limited = near.run(|| async {
        let limit = "qdisc add dev eth0 root tbf rate 20mbit burst 3kb latency 10s";
        let done = std::process::Command::new("tc").args(limit.split(' ')).output();
        done.is_ok_and(|done| done.status.success())
    });
    if !limited.join().unwrap() {
        whimbrel_testkit::not_run_in_part(module_path!(), "no tbf: the send buffer does not become full");
    }
    for (ours, theirs) in families {
        let batch = |number: u8, count: u8| -> Vec<Vec<u8>> {
            let len = |at: u8| if at + 1 == count { 500 } else { 1000 };
            (0..count)
                .map(|at| [vec![number, at], vec![7; len(at) - 2]].concat())
                .collect()
        };
        let batches: Vec<_> = (0..12)
            .map(|number| {
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(number) % 4];
                (ecn, batch(number, [32, 2, 17][usize::from(number) % 3]))
            })
            .collect();
        let expected: Vec<_> = batches
            .iter()
            .flat_map(|(ecn, packets)| {
                let batch = packets.iter().map(|bytes| (bytes.clone(), addr(ours), *ecn));
                // A single packet has its own bits.
                batch.chain([(b"single".to_vec(), addr(ours), Ecn::NotEct)])
            })
            .collect();
        let wanted = expected.len();
        let (ready, is_ready) = channel();
        let receiving = far.run(move || async move {
            let receiver = bind(theirs);
            ready.send(()).unwrap();
            receive(&*receiver, wanted).await
        });
        is_ready.recv().unwrap();
        let sending = near.run(move || async move {
            let config = StackConfig {
                socket_buffer: 8192,
                ..StackConfig::default()
            };
            let sender = RawIp.bind(addr(ours), &config).unwrap();
            for (ecn, packets) in &batches {
                send_batch(&*sender, theirs, *ecn, packets).await.unwrap();
                send(&*sender, theirs, Ecn::NotEct, b"single", false).await.unwrap();
            }
        });
        sending.join().unwrap();
        let received = receiving.join().unwrap();
        let order = |packets: &[(Vec<u8>, SocketAddr, Ecn)]| -> Vec<_> {
            packets
                .iter()
                .map(|(bytes, _, ecn)| (bytes[0], bytes[1], *ecn))
                .collect()
        };
        assert_eq!(order(&received), order(&expected), "{theirs}");
        assert!(received == expected, "{theirs}");
    }
}

#[test]
fn packets_longer_than_the_link_are_refused_or_sent_in_fragments() {
    needs!(namespaces());
    let (near, far) = (Host::new(), Host::new());
    near.connect(
        "eth0",
        &["10.9.0.1/24", "fd09::1/64"],
        &far,
        "eth0",
        &["10.9.0.2/24", "fd09::2/64"],
    );
    let families = match whimbrel_testkit::ipv6() {
        Ok(()) => vec![("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")],
        Err(_) => vec![("10.9.0.1", "10.9.0.2")],
    };
    for (ours, theirs) in families {
        let headers = if ours.contains(':') { 40 } else { 20 };
        let (ready, is_ready) = channel();
        let receiving = far.run(move || async move {
            let receiver = bind(theirs);
            ready.send(()).unwrap();
            receive(&*receiver, 3).await
        });
        is_ready.recv().unwrap();
        let sent = near.run(move || async move {
            let sender = bind(ours);
            let whole = vec![1; 1500 - headers];
            let long = vec![2; 1500 - headers + 1];
            send(&*sender, theirs, Ecn::Ect0, &whole, false).await.unwrap();
            let error = send(&*sender, theirs, Ecn::Ect0, &long, false).await.unwrap_err();
            assert_eq!(error.to_string(), "datagram too long for an MTU of 1500");
            send(&*sender, theirs, Ecn::Ect0, &long, true).await.unwrap();
            vec![whole, long.clone(), long]
        });
        let (sent, received) = (sent.join().unwrap(), receiving.join().unwrap());
        // What was refused has been sent in fragments all the same.
        let received: Vec<_> = received.into_iter().map(|(bytes, _, _)| bytes).collect();
        assert!(
            received == sent,
            "{:?}",
            received.iter().map(Vec::len).collect::<Vec<_>>()
        );
    }
}

/// Sends a packet of protocol 132 from a socket that has nothing to do with this library, with this header of IPv4 if there is one.
fn send_junk(to: &str, payload: &[u8], options: usize) {
    let to = addr(to);
    let domain = if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = socket2::Socket::new(domain, Type::RAW, Some(Protocol::from(132))).unwrap();
    if options > 0 {
        // ip(7): the header is ours, and the kernel sets its length.
        socket.set_header_included_v4(true).unwrap();
        let mut packet = vec![0; 20 + options];
        packet[0] = 0x40 | (5 + options / 4) as u8;
        (packet[8], packet[9]) = (64, 132);
        packet[12..16].copy_from_slice(&[127, 0, 0, 1]);
        packet[16..20].copy_from_slice(&[127, 0, 0, 2]);
        // No operation.
        packet[20..].fill(1);
        packet.extend_from_slice(payload);
        socket.send_to(&packet, &SockAddr::from(to)).unwrap();
        return;
    }
    socket.send_to(payload, &SockAddr::from(to)).unwrap();
}

#[test]
fn junk_does_nothing() {
    needs!(namespaces());
    let host = Host::new();
    let mut servers = vec!["127.0.0.2"];
    if whimbrel_testkit::ipv6().is_ok() {
        host.add_address("fd09::2/128", "lo");
        servers.push("fd09::2");
    } else {
        whimbrel_testkit::not_run_in_part(module_path!(), "no IPv6");
    }
    let done = host.run(move || async move {
        for server in servers {
            let ours = if server.contains(':') { "::1" } else { "127.0.0.1" };
            // One without a filter for its port, so that everything gets to the protocol.
            let mut open = config(PORT, &[server]);
            open.answer_all_ports = Some(true);
            let listener = Listener::bind(open).unwrap();
            let stack = Stack::bind(config(0, &[ours])).unwrap();
            let to = [server];
            let (client, at_server) = tokio::join!(connect(&stack, &to, PORT), accept(&listener));
            let (client, at_server) = (client.unwrap(), at_server);
            let junk = |to: &str, port: u16| {
                let mut header = vec![0, 7];
                header.extend(port.to_be_bytes());
                header.extend([9; 60]);
                for len in 0..header.len() {
                    send_junk(to, &header[..len], 0);
                    if server == "127.0.0.2" && to == server {
                        send_junk(to, &header[..len], 4);
                        send_junk(to, &header[..len], 40);
                    }
                }
                send_junk(to, &[0xff; 40_000], 0);
                send_junk(to, &[0; 100], 0);
            };
            junk(server, PORT);
            junk(server, 7);
            junk(ours, stack.port());
            tokio::join!(exchange(&client), exchange(&at_server));
            let discarded: u64 = listener.stack().discarded().iter().map(|(_, count)| count).sum();
            assert!(discarded > 100, "{:?}", listener.stack().discarded());
            timeout(PATIENCE, client.shutdown()).await.unwrap().unwrap();
            drop(listener);
        }
    });
    done.join().unwrap();
}
