//! Tests of single rules, named after the sections of RFC 9260 that define them.

mod acknowledge;
mod interleaved;
mod limits;
mod model;
mod options;
mod order;
mod skip;

use whimbrel_control::{Rng, Span, Time};
use whimbrel_wire::{Data, MessageNumber, Payload, Ssn, Tsn};

use super::components::Tail;
use super::{DataOutcome, Receiver, ReceiverConfig};
use crate::Received;

const NOW: Time = Time::from_nanos(5_000_000_000);
const ROOM: usize = 1452;

fn config() -> ReceiverConfig {
    ReceiverConfig::new(20_000, 10, 1500)
}

/// Returns an ordered message of 1000 bytes in one chunk on stream 0; its SSN is its TSN less one.
fn whole(tsn: u32) -> Data<'static> {
    Data {
        tsn: Tsn(tsn),
        stream: 0,
        number: MessageNumber::Ssn(Ssn(tsn.wrapping_sub(1) as u16)),
        fsn: 0,
        ppid: 7,
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload: Payload::Zeros(1000),
    }
}

/// Returns a fragment of the first ordered message on stream 0: (begin, end) as in Table 4.
fn fragment(tsn: u32, begin: bool, end: bool) -> Data<'static> {
    Data {
        number: MessageNumber::Ssn(Ssn(0)),
        begin,
        end,
        ..whole(tsn)
    }
}

/// Returns a receiver that expects TSN 1.
fn receiver(config: &ReceiverConfig) -> Receiver {
    Receiver::new(Tsn(1), config.clone().into())
}

/// Passes one packet with these chunks to the receiver.
fn packet(receiver: &mut Receiver, now: Time, chunks: &[Data<'_>]) -> Vec<DataOutcome> {
    let outcomes = chunks.iter().map(|data| receiver.on_data(data)).collect();
    receiver.on_packet_end(now, 3);
    outcomes
}

/// Returns the cumulative TSN, gap blocks and duplicates of a SACK of at most `room` bytes.
fn sack_in(receiver: &mut Receiver, room: usize) -> (u32, Vec<(u16, u16)>, Vec<u32>) {
    let (mut gaps, mut duplicates) = (vec![9; 3], vec![9; 3]);
    let content = receiver.write_sack(&mut gaps, &mut duplicates, room);
    let half = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    let blocks = gaps
        .chunks_exact(4)
        .map(|block| (half(block), half(&block[2..])))
        .collect();
    let word = |bytes: &[u8]| u32::from(half(bytes)) << 16 | u32::from(half(&bytes[2..]));
    (
        content.cumulative_tsn_ack.0,
        blocks,
        duplicates.chunks_exact(4).map(word).collect(),
    )
}

fn sack(receiver: &mut Receiver) -> (u32, Vec<(u16, u16)>, Vec<u32>) {
    sack_in(receiver, ROOM)
}

fn a_rwnd(receiver: &mut Receiver) -> u32 {
    receiver.write_sack(&mut Vec::new(), &mut Vec::new(), ROOM).a_rwnd
}

fn recv(receiver: &mut Receiver) -> Option<Received> {
    let mut len = 0;
    let received = receiver.recv(&mut |part| len += part.len())?;
    assert_eq!(received.len, len);
    Some(received)
}

/// Reads all messages and returns the (stream, SSN) of each.
fn drain(receiver: &mut Receiver) -> Vec<(u16, u16)> {
    std::iter::from_fn(|| recv(receiver))
        .map(|message| (message.stream, message.ssn.0))
        .collect()
}
