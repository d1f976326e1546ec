use whimbrel_control::Rng;

use super::*;
use crate::config::JitterConfig;
use crate::packet::Slab;
use crate::queue::QueueConfig;

pub(super) const ALL: Window = Window {
    from: Time::ZERO,
    to: Time::MAX,
};

pub(super) fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

/// Creates a direction with 12 Mbit/s: a packet of 1500 bytes takes a millisecond. Room for three packets.
pub(super) fn direction(extras: Option<Extras>) -> Direction {
    let queue = DropTail::new(&QueueConfig::DropTail {
        packets: Some(3),
        bytes: None,
    });
    Direction::new(
        Rate::from_mbps(12),
        Span::from_millis(10),
        1500,
        queue,
        extras.map(Box::new),
    )
}

pub(super) fn nothing() -> Extras {
    Extras {
        losses: Vec::new(),
        jitter: None,
        duplicate: None,
        trace: None,
        queue: None,
        scheduler: None,
        marked: 0,
    }
}

/// Returns a packet of this size.
fn packet(slab: &mut Slab, size: u32) -> &mut Packet {
    let id = slab.reserve();
    let packet = slab.get_mut(id);
    packet.size = size;
    packet
}

fn enter_sized(
    direction: &mut Direction,
    now: Time,
    seq: u64,
    size: u32,
    window: Window,
) -> Result<Admission, DropCause> {
    direction.enter(now, now, seq, seq as u32, packet(&mut Slab::default(), size), window)
}

pub(super) fn enter(direction: &mut Direction, now: Time, seq: u64) -> Result<Admission, DropCause> {
    enter_sized(direction, now, seq, 1500, ALL)
}

/// Returns when the last accepted packet arrives.
fn arrival(direction: &Direction, entry: Result<Admission, DropCause>) -> Time {
    match entry {
        Ok(Admission::First(at) | Admission::Loose(at)) => at,
        Ok(Admission::Behind) => direction.ring.back().expect("a packet").arrival,
        Ok(Admission::Queued { .. }) => panic!("no queue here decides at departures"),
        Err(cause) => panic!("refused: {cause:?}"),
    }
}

/// Enters a packet that must be accepted, and returns when it arrives.
pub(super) fn arrives(direction: &mut Direction, now: Time, seq: u64) -> Time {
    let entry = enter(direction, now, seq);
    arrival(direction, entry)
}

#[test]
fn packets_are_sent_one_after_another() {
    let mut link = direction(None);
    assert_eq!(arrives(&mut link, ms(5), 0), ms(16));
    assert_eq!(arrives(&mut link, ms(5), 1), ms(17));
    assert_eq!(arrives(&mut link, ms(30), 2), ms(41));
    assert_eq!(link.arrive(0).map(|t| t.packet), Some(0));
    assert_eq!(link.arrive(7).map(|t| t.packet), None, "a stale event");
    assert_eq!(link.arrive(1).map(|t| t.packet), Some(1));
}

#[test]
fn the_packet_in_transmission_does_not_count_as_queued() {
    let mut link = direction(None);
    for seq in 0..4 {
        arrives(&mut link, ms(0), seq);
    }
    assert_eq!(
        link.waiting(ms(0)),
        Occupancy {
            packets: 3,
            bytes: 4500
        }
    );
    assert_eq!(enter(&mut link, ms(0), 4), Err(DropCause::QueueFull));
    // The first packet has left when the second one starts.
    assert_eq!(arrives(&mut link, ms(1), 5), ms(15));
    assert_eq!(enter(&mut link, ms(1), 6), Err(DropCause::QueueFull));
    assert_eq!(link.waiting(ms(4)), Occupancy { packets: 0, bytes: 0 });
    assert_eq!((link.stats.max_waiting, link.stats.max_waiting_bytes), (3, 4500));
    // Queueing times of 0, 1, 2, 3 and 3 ms.
    assert_eq!((link.stats.waited, link.stats.busy), (9_000_000, 5_000_000));
}

#[test]
fn refuses_packets_above_the_mtu_or_on_a_down_link() {
    let mut link = direction(None);
    assert_eq!(enter_sized(&mut link, ms(0), 0, 1501, ALL), Err(DropCause::TooBig));
    link.set_up(ms(0), false, ALL);
    assert_eq!(enter(&mut link, ms(0), 1), Err(DropCause::LinkDown));
    link.set_up(ms(3), true, ALL);
    assert_eq!(arrives(&mut link, ms(4), 2), ms(15));
}

#[test]
fn going_down_loses_packets_that_have_not_left() {
    let mut link = direction(None);
    for seq in 0..4 {
        arrives(&mut link, ms(0), seq);
    }
    // At 1.5 ms one packet has left, one is half sent, two are queued.
    let at = Time::from_nanos(1_500_000);
    let lost: Vec<_> = link.set_up(at, false, ALL).into_iter().map(|t| t.packet).collect();
    assert_eq!(lost, [1, 2, 3]);
    assert_eq!(link.waiting(at), Occupancy { packets: 0, bytes: 0 });
    assert_eq!(link.stats.busy, 1_500_000);
    assert_eq!(link.stats.waited, 1_000_000 + 1_500_000 + 1_500_000);
    assert_eq!(link.arrive(0).map(|t| t.packet), Some(0));
    assert!(link.head().is_none());
}

#[test]
fn jitter_without_reordering_keeps_the_order() {
    let config = JitterConfig::Exponential {
        mean: Span::from_millis(20),
        reorder: false,
    };
    let mut link = direction(Some(Extras {
        jitter: Some(Jitter::new(config, Rng::stream(1, "j"))),
        ..nothing()
    }));
    let mut last = Time::ZERO;
    let mut held = 0;
    for seq in 0..2000 {
        let now = ms(seq * 2);
        while let Some(head) = link.head().copied().filter(|t| t.arrival <= now) {
            link.arrive(head.seq);
        }
        let at = arrives(&mut link, now, seq);
        assert!(at >= last && at >= ms(seq * 2 + 11));
        held += u32::from(at == last);
        last = at;
    }
    assert!(held > 500, "{held}");
}

#[test]
fn packets_that_may_overtake_others_are_loose() {
    let config = JitterConfig::Uniform {
        min: Span::ZERO,
        max: Span::from_millis(50),
        reorder: true,
    };
    let mut link = direction(Some(Extras {
        jitter: Some(Jitter::new(config, Rng::stream(1, "j"))),
        ..nothing()
    }));
    let arrivals: Vec<_> = (0..1000)
        .map(|seq| {
            let entry = enter(&mut link, ms(seq * 2), seq);
            assert!(matches!(entry, Ok(Admission::Loose(_))));
            arrival(&link, entry)
        })
        .collect();
    assert!(arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count() > 300);
    assert!(link.ring.len() < 3, "packets that have left are removed");
}

#[test]
fn a_window_counts_only_its_own_time() {
    let mut link = direction(None);
    let window = Window { from: ms(1), to: ms(3) };
    for seq in 0..4 {
        enter_sized(&mut link, ms(0), seq, 1500, window).expect("room");
    }
    // Busy all the time; queued from 1 to 3 ms: the third packet 1 ms, the fourth 2 ms.
    assert_eq!(
        (link.stats.busy, link.stats.waited, link.stats.packets),
        (2_000_000, 3_000_000, 0)
    );
}
