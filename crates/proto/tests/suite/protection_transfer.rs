//! Encrypted associations at work: paths, path MTU, changes of addresses and of keys, losses, and the end.

use crate::keys;
use crate::protection::*;
use crate::support::{Fate, Host, Net, Sent, addr, addrs, meta};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AddressError, AssociationConfig, CloseReason, InsecureNullKeys, KeyExchange, KeyLimits, KeySource, Message,
    Protect, ProtectionConfig, ProtectionError, Role, State,
};
use whimbrel_wire::{ByteSink, ChecksumField, ChunkType, OwnedPacket};

// The draft, "SCTP Considerations": ASCONF without AUTH, as DTLS chunks are used in both directions.
// [dtls:1.1-1, 3.2-2]
#[test]
fn addresses_change_without_rfc_4895() {
    let (mut net, a, b) = established(1);
    let (now, lte) = (net.now, addr("10.0.1.1:0"));
    assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
    net.run_for(Span::from_secs(5));
    let remotes: Vec<_> = net
        .b
        .association(b)
        .expect("B")
        .paths()
        .map(|path| path.remote)
        .collect();
    assert!(remotes.contains(&lte), "{remotes:?}");
    assert_eq!(net.count(Host::A, ChunkType::ASCONF), 0, "it is encrypted");
    let now = net.now;
    assert_eq!(net.a.remove_local_address(now, a, addrs(Host::A, 1)[0]), Ok(()));
    net.run_for(Span::from_secs(5));
    still_works(&mut net, a, b);
    let now = net.now;
    assert_eq!(net.a.remove_local_address(now, a, lte), Err(AddressError::Last));
}

// Paths of very different delay: the packets of the slow one are not taken for replays.
#[test]
fn packets_that_arrive_two_seconds_later_are_opened() {
    let config = AssociationConfig {
        scheme: whimbrel_control::Scheme::by_name("cmt").expect("it is registered"),
        ..config()
    };
    let mut net = Net::with_config(2, &config, 1);
    let a = net.connect(&config, 2);
    net.run_for(Span::from_secs(1));
    net.filter = Box::new(|packet| match packet.remote.ip().to_string().starts_with("10.0.1.") {
        true => Fate::Delay(Span::from_secs(2)),
        false => Fate::Deliver,
    });
    let message = vec![3; 400_000];
    net.send(Host::A, a, Message::new(0, message.clone()));
    net.run_for(Span::from_secs(60));
    assert_eq!(net.contents(Host::B), [message]);
    let slow = net
        .log
        .iter()
        .filter(|(_, host, to, _)| *host == Host::A && to.ip().to_string() == "10.0.1.2");
    assert!(slow.count() > 10);
    let b = net.only(Host::B);
    let stats = net.b.association(b).expect("B").protection_stats();
    assert_eq!((stats.replayed, stats.failed), (0, 0));
    let sealed = net.a.association(a).expect("A").protection_stats().sealed;
    assert!(stats.opened >= sealed - 1, "{stats:?}, {sealed}");
}

// RFC 9260 §8.4 answers without keys, and the peer discards that. The end of an association is known for a while.
#[test]
fn the_loss_of_the_last_packet_does_not_keep_the_peer_waiting() {
    for is_graceful in [true, false] {
        let (mut net, a, b) = established(1);
        let now = net.now;
        // The first packet is SHUTDOWN or ABORT, the second is SHUTDOWN COMPLETE.
        let lost = if is_graceful { 2 } else { 1 };
        let mut count = 0;
        net.filter = Box::new(move |packet| {
            count += u32::from(packet.from == Host::A);
            if packet.from == Host::A && count == lost {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        if is_graceful {
            net.a.shutdown(now, a);
        } else {
            net.a.abort(now, a, "enough");
        }
        net.run_for(Span::from_millis(500));
        assert_eq!(
            net.close_reason(Host::A).is_some(),
            net.close_reason(Host::B).is_none(),
            "B has to learn of it"
        );
        if !is_graceful {
            net.send(Host::B, b, Message::new(0, TEXT));
        }
        net.run_for(Span::from_secs(5));
        let expected = match is_graceful {
            true => CloseReason::Graceful,
            false => CloseReason::AbortedByPeer {
                cause: None,
                reason: String::new(),
            },
        };
        assert_eq!(net.close_reason(Host::B), Some(expected));
    }
}

// RFC 8899: probes are encrypted, and the path MTU counts the DTLS chunk.
// [dtls:3.1-6, 3.2-4]
#[test]
fn the_path_mtu_is_searched_for_with_encrypted_probes() {
    let config = AssociationConfig {
        max_mtu: Some(65_535),
        hb_interval: Span::ZERO,
        recv_buffer: 4 << 20,
        send_buffer: 4 << 20,
        ..config()
    };
    for (link, found) in [(1400_usize, 1400), (9000, 9000), (65_535, 16_444)] {
        let mut net = Net::with_config(1, &config, 1);
        net.filter = Box::new(move |packet| match packet.bytes.len() + 20 > link {
            true => Fate::Drop,
            false => Fate::Deliver,
        });
        let a = net.connect(&config, 1);
        net.run_for(Span::from_secs(1));
        for _ in 0..60 {
            net.send(Host::A, a, Message::new(0, vec![9; 100_000]));
            net.run_for(Span::from_secs(1));
        }
        assert_eq!(net.contents(Host::B).len(), 60);
        let path = net.a.association(a).expect("A").paths().next().expect("a path");
        assert_eq!(path.mtu, found);
        let longest = net.wire.iter().map(|sent| sent.bytes.len()).max();
        assert!(
            longest.is_some_and(|longest| longest <= 16_384 + 28 + 12),
            "{longest:?}"
        );
        let plain = net.wire.iter().filter(|sent| !sent.has(ChunkType::DTLS));
        assert_eq!(plain.count(), 3, "INIT, INIT ACK, COOKIE ECHO");
    }
}

// The simulator passes packets as structures: the same ones, with keys that protect nothing.
#[test]
fn packets_as_structures_are_the_same() {
    let config = AssociationConfig {
        protection: ProtectionConfig::required(std::sync::Arc::new(InsecureNullKeys)),
        ..AssociationConfig::default()
    };
    let run = |as_bytes: bool| {
        let mut net = Net::with_config(1, &config, 1);
        let a = net.connect(&config, 1);
        let (mut now, mut lengths) = (net.now, Vec::new());
        net.a.send(now, a, Message::zeros(0, 50_000)).expect("there is room");
        for _ in 0..100 {
            now += Span::from_millis(5);
            for to in [Host::B, Host::A] {
                let (mut packet, mut bytes) = (OwnedPacket::new(), Vec::new());
                loop {
                    let from = net.host(to.other());
                    let sent = match as_bytes {
                        true => from.poll_transmit(now, &mut ByteSink::new(&mut bytes, ChecksumField::Compute)),
                        false => from.poll_transmit(now, &mut packet),
                    };
                    let Some(sent) = sent else { break };
                    lengths.push(sent.wire_len);
                    let meta = meta(sent.remote, sent.local);
                    let taken = match as_bytes {
                        true => net.host(to).handle_datagram(now, meta, &bytes),
                        false => net.host(to).handle_packet(now, meta, &packet.view()),
                    };
                    assert_eq!(taken, Ok(()));
                    bytes.clear();
                }
                net.host(to).handle_timeout(now);
            }
        }
        let b = net.only(Host::B);
        net.read(Host::B, b);
        assert_eq!(net.contents(Host::B), [vec![0; 50_000]]);
        lengths
    };
    let lengths = run(true);
    assert_eq!(lengths, run(false));
    assert!(lengths.contains(&1480));
}

/// Keys whose uses are spent soon. There are as many epochs as given.
#[derive(Debug)]
pub(crate) struct FewUses {
    pub(crate) keys: std::sync::Arc<dyn KeySource>,
    pub(crate) epochs: u64,
}

#[derive(Debug)]
struct Limited(std::sync::Arc<dyn Protect>);

impl KeySource for FewUses {
    fn methods(&self) -> &[u8] {
        self.keys.methods()
    }

    fn derive(
        &self,
        exchange: &KeyExchange,
        sender: Role,
        epoch: u64,
    ) -> Result<std::sync::Arc<dyn Protect>, ProtectionError> {
        if epoch >= 3 + self.epochs {
            return Err(ProtectionError);
        }
        Ok(std::sync::Arc::new(Limited(self.keys.derive(exchange, sender, epoch)?)))
    }
}

impl Protect for Limited {
    fn overhead(&self) -> usize {
        self.0.overhead()
    }

    fn seal(&self, sequence: u64, header: &[u8; 3], record: &mut [u8]) -> Result<(), ProtectionError> {
        assert!(sequence < 100, "beyond the limit");
        self.0.seal(sequence, header, record)
    }

    fn open(&self, sequence: u64, header: &[u8; 3], record: &mut [u8]) -> Result<(), ProtectionError> {
        self.0.open(sequence, header, record)
    }

    fn mask(&self, sample: &[u8; 16]) -> [u8; 2] {
        self.0.mask(sample)
    }

    fn limits(&self) -> KeyLimits {
        KeyLimits {
            sealed: 100,
            failed: 1000,
        }
    }
}

// RFC 9147 §4.5.3. With two paths of different delay and losses, so that packets of the epoch before arrive later.
#[test]
fn keys_are_replaced_before_their_limit() {
    for (epochs, survives) in [(u64::MAX - 3, true), (2, false)] {
        let source = FewUses {
            keys: keys::sources(&[7; 32]).swap_remove(0),
            epochs,
        };
        let config = AssociationConfig {
            protection: ProtectionConfig::required(std::sync::Arc::new(source)),
            scheme: whimbrel_control::Scheme::by_name("cmt").expect("it is registered"),
            ..AssociationConfig::default()
        };
        let mut net = Net::with_config(2, &config, 1);
        let a = net.connect(&config, 2);
        net.run_for(Span::from_secs(1));
        let b = net.only(Host::B);
        let mut count = 0;
        net.filter = Box::new(move |packet| {
            count += 1;
            match (count % 50, packet.remote.ip().to_string().starts_with("10.0.1.")) {
                (0, _) => Fate::Drop,
                (_, true) => Fate::Delay(Span::from_millis(100)),
                _ => Fate::Deliver,
            }
        });
        let message = vec![4; 900_000];
        net.send(Host::A, a, Message::new(0, message.clone()));
        net.run_for(Span::from_secs(200));
        if survives {
            assert_eq!(net.contents(Host::B), [message]);
            let [at_a, at_b] = [(&net.a, a), (&net.b, b)]
                .map(|(end, id)| end.association(id).expect("it is established").protection_stats());
            assert!(at_a.epochs_sent > 10 && at_b.epochs_sent > 3, "{at_a:?} {at_b:?}");
            assert_eq!(
                (at_a.epochs_sent, at_b.epochs_sent),
                (at_b.epochs_received, at_a.epochs_received)
            );
            still_works(&mut net, a, b);
        } else {
            let spent = CloseReason::OverLimit("the keys of this association are used up");
            assert_eq!(net.close_reason(Host::A), Some(spent));
        }
    }
}

// Losses, copies, delays and changed copies of each packet, on two paths: every message arrives once and unchanged.
#[test]
fn messages_arrive_once_over_a_hostile_network() {
    for seed in 0..12 {
        let mut random = Rng::stream(seed, "hostile network");
        let config = AssociationConfig {
            scheme: whimbrel_control::Scheme::by_name("cmt").expect("it is registered"),
            ..config()
        };
        let mut net = Net::with_config(2, &config, seed);
        net.filter = Box::new(move |_| match random.next_u32() % 16 {
            0 => Fate::Drop,
            1 | 2 => Fate::Duplicate,
            3..=5 => Fate::Delay(Span::from_millis(u64::from(random.next_u32() % 300))),
            _ => Fate::Deliver,
        });
        let a = net.connect(&config, 2);
        let mut changes = Rng::stream(seed, "changes");
        let (mut sent, mut seen) = (Vec::new(), 0);
        for number in 0..120_u32 {
            if net.state(Host::A, a) == State::Established && number % 2 == 0 {
                let message = vec![number as u8; 1 + (number as usize * 173) % 9000];
                net.send(Host::A, a, Message::new(0, message.clone()));
                sent.push(message);
            }
            net.run_for(Span::from_millis(100));
            // The packets since the last time, each with a changed byte.
            let copies: Vec<Sent> = net.wire.iter().skip(seen).cloned().collect();
            seen = net.wire.len();
            for copy in copies.iter().filter(|copy| copy.has(ChunkType::DTLS)) {
                let mut bytes = copy.bytes.clone();
                let at = 12 + changes.next_u32() as usize % (bytes.len() - 12);
                bytes[at] ^= 1 << (changes.next_u32() % 8);
                let _ = net.deliver_from(copy.from.other(), copy.meta(), &resealed_from_zero(bytes));
            }
            seen = seen.max(net.wire.len());
        }
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(120));
        assert!(sent.len() > 30, "seed {seed}");
        assert!(net.contents(Host::B) == sent, "seed {seed}");
        let b = net.only(Host::B);
        let stats = net.b.association(b).expect("B").protection_stats();
        assert!(stats.failed > 0 && stats.replayed > 0, "seed {seed}: {stats:?}");
        still_works(&mut net, a, b);
    }
}

// The keys have been taken from an association that has ended. Its timers must not ask for them.
#[test]
fn an_association_that_has_ended_waits_for_its_reader() {
    let (mut net, a, b) = established(1);
    net.auto_read = false;
    net.send(Host::A, a, Message::new(0, TEXT));
    let now = net.now;
    // While B's SACK is delayed, which has a timer.
    net.a.abort(now, a, "enough");
    net.run_for(Span::from_secs(300));
    assert!(matches!(
        net.close_reason(Host::B),
        Some(CloseReason::AbortedByPeer { .. })
    ));
    let ended = net.b.association(b).expect("it has unread data");
    assert!(ended.is_protected() && ended.protection_stats().opened > 0);
    net.read(Host::B, b);
    assert_eq!(net.contents(Host::B), [TEXT]);
    assert_eq!((net.a.next_timeout(), net.b.next_timeout()), (None, None));
}
