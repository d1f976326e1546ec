//! Reporting beyond the standard, by option.

use super::*;

fn told(receiver: &mut Receiver) -> u8 {
    receiver.write_sack(&mut Vec::new(), &mut Vec::new(), ROOM).packets
}

/// Ye 2004, 6.6: a SACK for k = 4 packets.
fn k_arrivals() -> ReceiverConfig {
    ReceiverConfig {
        sack_frequency: 4,
        sack_any_order: true,
        ..config()
    }
}

#[test]
fn ye_6_6_a_sack_after_k_arrivals_no_matter_their_order() {
    let mut receiver = receiver(&k_arrivals());
    for tsn in [3, 1, 7] {
        packet(&mut receiver, NOW, &[whole(tsn)]);
        assert!(!receiver.sack_due(NOW), "TSN {tsn}");
    }
    packet(&mut receiver, NOW, &[whole(6)]);
    assert!(receiver.sack_due(NOW));
    assert_eq!(sack(&mut receiver), (1, vec![(2, 2), (5, 6)], vec![]));
    // Neither a gap that remains nor one that closes hurries it.
    for tsn in [2, 4, 5] {
        packet(&mut receiver, NOW, &[whole(tsn)]);
        assert!(!receiver.sack_due(NOW), "TSN {tsn}");
    }
    packet(&mut receiver, NOW, &[whole(8), whole(9)]);
    assert!(receiver.sack_due(NOW), "packets count, not chunks");
}

#[test]
fn ye_6_6_the_timer_guarantees_a_sack() {
    let mut receiver = receiver(&k_arrivals());
    packet(&mut receiver, NOW, &[whole(2)]);
    packet(&mut receiver, NOW + Span::from_millis(150), &[whole(4)]);
    let deadline = NOW + Span::from_millis(200);
    assert_eq!(receiver.sack_deadline(), Some(deadline), "from the first arrival");
    assert!(receiver.sack_due(deadline));
    sack(&mut receiver);
    packet(&mut receiver, deadline, &[whole(6)]);
    assert!(!receiver.sack_due(deadline), "the count begins anew");
}

#[test]
fn what_the_sender_waits_for_does_not_wait_for_k_arrivals() {
    let mut receiver = receiver(&ReceiverConfig {
        recv_buffer: 2000,
        ..k_arrivals()
    });
    packet(
        &mut receiver,
        NOW,
        &[Data {
            immediate: true,
            ..whole(1)
        }],
    );
    assert!(receiver.sack_due(NOW), "RFC 7053");
    sack(&mut receiver);
    packet(&mut receiver, NOW, &[whole(1), whole(2)]);
    assert!(!receiver.sack_due(NOW), "something new came with the repetition");
    packet(&mut receiver, NOW, &[whole(2)]);
    assert!(receiver.sack_due(NOW), "RFC 9260 §6.2: nothing but repetitions");
    sack(&mut receiver);
    packet(&mut receiver, NOW, &[whole(3)]);
    assert!(receiver.sack_due(NOW), "RFC 9260 §6.2: dropped");
}

#[test]
fn dac_the_number_of_packets_is_told_with_each_sack() {
    // Iyengar, Amer and Stewart 2006: a SACK for two packets at most, delayed also when they are out of order.
    let mut receiver = receiver(&ReceiverConfig {
        sack_any_order: true,
        tells_packets: true,
        ..config()
    });
    packet(&mut receiver, NOW, &[whole(3)]);
    assert!(!receiver.sack_due(NOW));
    packet(&mut receiver, NOW, &[whole(5), whole(6)]);
    assert!(receiver.sack_due(NOW));
    assert_eq!(told(&mut receiver), 2);
    packet(&mut receiver, NOW, &[whole(8)]);
    assert_eq!(told(&mut receiver), 1, "one that went along with data");
    assert_eq!(told(&mut receiver), 0, "one that tells of a window alone");
    for tsn in 9..15 {
        packet(&mut receiver, NOW, &[whole(tsn)]);
    }
    assert_eq!(told(&mut receiver), 3, "two bits say three or more");
}

#[test]
fn the_number_of_packets_is_told_only_by_option() {
    let mut receiver = receiver(&config());
    packet(&mut receiver, NOW, &[whole(1)]);
    packet(&mut receiver, NOW, &[whole(2)]);
    assert_eq!(told(&mut receiver), 0);
}
