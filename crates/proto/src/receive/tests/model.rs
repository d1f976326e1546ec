//! A slow and simple model of the receiver, and random exchanges in which the receiver must give the same results.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use whimbrel_control::Rng;
use whimbrel_wire::{Data, MessageNumber, Payload, Ssn, Tsn};

use super::super::{DataOutcome, Receiver, ReceiverConfig, store};
use crate::Received;

#[derive(Clone, Debug)]
struct Chunk {
    stream: u16,
    ssn: u16,
    /// The number of the message, which identifies it.
    ppid: u32,
    unordered: bool,
    begin: bool,
    end: bool,
    payload: Vec<u8>,
}

impl Chunk {
    fn data(&self, tsn: Tsn) -> Data<'_> {
        Data {
            tsn,
            stream: self.stream,
            number: MessageNumber::Ssn(Ssn(self.ssn)),
            fsn: 0,
            ppid: self.ppid,
            unordered: self.unordered,
            begin: self.begin,
            end: self.end,
            immediate: false,
            payload: Payload::Bytes(&self.payload),
        }
    }
}

/// Chunks are numbered from 1 by the order of their TSNs.
struct Model {
    config: ReceiverConfig,
    initial: Tsn,
    /// Chunks received and not dropped since, read or not.
    received: BTreeMap<u32, Chunk>,
    /// The received chunks whose payload is still in memory.
    held: BTreeSet<u32>,
    /// Complete messages for the reader, as first and last chunk.
    ready: VecDeque<(u32, u32)>,
    /// First chunks of messages that are or were in `ready`, or were read in parts.
    begun: BTreeSet<u32>,
    expected: BTreeMap<u16, u16>,
    /// The last chunk read of a partly delivered message.
    partial: Option<u32>,
    promised_up_to: u64,
    accepted: u64,
    duplicates: Vec<u32>,
}

impl Model {
    fn new(initial: Tsn, config: &ReceiverConfig) -> Self {
        Model {
            config: config.clone(),
            initial,
            received: BTreeMap::new(),
            held: BTreeSet::new(),
            ready: VecDeque::new(),
            begun: BTreeSet::new(),
            expected: BTreeMap::new(),
            partial: None,
            promised_up_to: config.recv_buffer.into(),
            accepted: 0,
            duplicates: Vec::new(),
        }
    }

    fn tsn(&self, number: u32) -> Tsn {
        self.initial.previous() + number
    }

    fn cumulative(&self) -> u32 {
        (1..).find(|n| !self.received.contains_key(n)).map_or(0, |n| n - 1)
    }

    fn highest(&self) -> u32 {
        self.received.keys().next_back().copied().unwrap_or(0)
    }

    fn payload_held(&self) -> u64 {
        self.held.iter().map(|n| self.received[n].payload.len() as u64).sum()
    }

    fn memory_held(&self) -> u64 {
        self.held
            .iter()
            .map(|n| store::charge(self.received[n].payload.len()) as u64)
            .sum()
    }

    fn space_left(&self) -> u64 {
        let buffer = u64::from(self.config.recv_buffer).saturating_sub(self.payload_held());
        buffer.min(u64::from(self.config.memory_limit).saturating_sub(self.memory_held()))
    }

    fn window(&self) -> u64 {
        let promised = self.promised_up_to.saturating_sub(self.accepted);
        let step = u64::from(self.config.mtu).min(u64::from(self.config.recv_buffer) / 2);
        if self.space_left() >= promised + step {
            self.space_left()
        } else {
            promised.min(self.space_left())
        }
    }

    fn fits(&self, len: usize) -> bool {
        self.payload_held() + len as u64 <= u64::from(self.config.recv_buffer)
            && self.memory_held() + store::charge(len) as u64 <= u64::from(self.config.memory_limit)
    }

    fn on_data(&mut self, number: u32, chunk: &Chunk) -> DataOutcome {
        if self.received.contains_key(&number) {
            if self.duplicates.len() < usize::from(self.config.max_duplicates) {
                self.duplicates.push(self.tsn(number).0);
            }
            return DataOutcome::Duplicate;
        }
        if number - self.cumulative() > self.config.max_tsn_window {
            return DataOutcome::OutOfWindow;
        }
        if chunk.stream >= self.config.inbound_streams {
            self.received.insert(number, chunk.clone());
            return DataOutcome::InvalidStream;
        }
        let rest_of_partial = self.partial == Some(number - 1);
        if self.window() == 0 && !rest_of_partial {
            if number > self.highest() {
                return DataOutcome::NoBuffer;
            }
            while !self.fits(chunk.payload.len()) {
                let in_ready = |n: &u32| self.ready.iter().any(|(first, last)| (first..=last).contains(&n));
                let Some(victim) = self
                    .held
                    .iter()
                    .rev()
                    .find(|n| !in_ready(n))
                    .copied()
                    .filter(|n| *n > number)
                else {
                    return DataOutcome::NoBuffer;
                };
                self.held.remove(&victim);
                let dropped = self.received.remove(&victim).expect("what is held was received");
                self.accepted -= dropped.payload.len() as u64;
            }
        }
        self.accepted += chunk.payload.len() as u64;
        self.received.insert(number, chunk.clone());
        self.held.insert(number);
        self.find_ready();
        DataOutcome::New
    }

    /// Returns the last chunk of the message that begins with `first`, or the last one received of it.
    fn end_of(&self, first: u32) -> u32 {
        let mut last = first;
        while !self.received[&last].end && self.received.contains_key(&(last + 1)) {
            last += 1;
        }
        last
    }

    fn find_ready(&mut self) {
        let begins: Vec<u32> = self.held.iter().copied().filter(|n| self.received[n].begin).collect();
        for first in begins {
            let last = self.end_of(first);
            let chunk = &self.received[&first];
            if self.begun.contains(&first) || !self.received[&last].end {
                continue;
            }
            if !chunk.unordered {
                let expected = self.expected.entry(chunk.stream).or_default();
                if *expected != chunk.ssn {
                    continue;
                }
                *expected = expected.wrapping_add(1);
            }
            self.begun.insert(first);
            self.ready.push_back((first, last));
            return self.find_ready();
        }
    }

    fn recv(&mut self) -> Option<(Received, Vec<u8>)> {
        if let Some(read) = self.partial
            && self.held.contains(&(read + 1))
        {
            return Some(self.read_partial(read + 1));
        }
        if let Some(&(first, last)) = self.ready.front() {
            let chunk = &self.received[&first];
            let confusable = |read: &u32| {
                let other = &self.received[read];
                other.unordered && chunk.unordered && other.stream == chunk.stream
            };
            if self.partial.as_ref().is_some_and(confusable) {
                return None;
            }
            self.ready.pop_front();
            return Some(self.read(first, last));
        }
        let cumulative = self.cumulative();
        let tail = self.received.get(&cumulative)?;
        let turn = tail.unordered || self.expected.get(&tail.stream).copied().unwrap_or(0) == tail.ssn;
        let full = self.space_left() < u64::from(self.config.mtu);
        if self.partial.is_some() || tail.end || !self.held.contains(&cumulative) || !turn || !full {
            return None;
        }
        let first = (1..=cumulative)
            .rev()
            .find(|n| self.received[n].begin)
            .expect("a message has a beginning");
        self.begun.insert(first);
        Some(self.read_partial(first))
    }

    fn read_partial(&mut self, first: u32) -> (Received, Vec<u8>) {
        let last = self.end_of(first);
        let chunk = self.received[&last].clone();
        self.partial = (!chunk.end).then_some(last);
        let part = self.read(first, last);
        if chunk.end && !chunk.unordered {
            *self.expected.entry(chunk.stream).or_default() = chunk.ssn.wrapping_add(1);
            self.find_ready();
        }
        part
    }

    fn read(&mut self, first: u32, last: u32) -> (Received, Vec<u8>) {
        let mut bytes = Vec::new();
        for number in first..=last {
            bytes.extend_from_slice(&self.received[&number].payload);
            assert!(self.held.remove(&number));
        }
        let chunk = &self.received[&last];
        let ssn = if chunk.unordered { Ssn(0) } else { Ssn(chunk.ssn) };
        let (stream, ppid, unordered) = (chunk.stream, chunk.ppid, chunk.unordered);
        (
            Received {
                stream,
                ssn,
                ppid,
                unordered,
                len: bytes.len(),
                begin: self.received[&first].begin,
                end: chunk.end,
                given_up: false,
                before_restart: false,
                more: false,
            },
            bytes,
        )
    }

    /// Returns the cumulative TSN, a_rwnd, gap blocks and duplicates.
    fn sack(&mut self, room: usize) -> (Tsn, u64, Vec<(u32, u32)>, Vec<u32>) {
        let cumulative = self.cumulative();
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        for offset in self
            .received
            .keys()
            .filter(|n| **n > cumulative)
            .map(|n| n - cumulative)
        {
            match blocks.last_mut() {
                Some((_, last)) if *last + 1 == offset => *last = offset,
                _ => blocks.push((offset, offset)),
            }
        }
        let entries = room.saturating_sub(16) / 4;
        blocks.truncate(entries.min(self.config.max_gap_blocks.into()));
        let mut duplicates = std::mem::take(&mut self.duplicates);
        duplicates.truncate(entries - blocks.len());
        let window = self.window();
        self.promised_up_to = self.promised_up_to.max(self.accepted + window);
        (self.tsn(cumulative), window, blocks, duplicates)
    }
}

fn recv(receiver: &mut Receiver) -> Option<(Received, Vec<u8>)> {
    let mut bytes = Vec::new();
    let received = receiver.recv(&mut |payload| match payload {
        Payload::Bytes(part) => bytes.extend_from_slice(part),
        Payload::Zeros(len) => bytes.resize(bytes.len() + len as usize, 0),
    })?;
    Some((received, bytes))
}

/// The receiver and its model side by side, and the data delivered to the reader.
struct Pair {
    real: Receiver,
    model: Model,
    chunks: Vec<Chunk>,
    messages: BTreeMap<u32, Vec<u8>>,
    finished: Vec<u32>,
}

impl Pair {
    fn new(config: &ReceiverConfig, chunks: Vec<Chunk>) -> Self {
        let initial = Tsn(u32::MAX - 20);
        Pair {
            real: Receiver::new(initial, config.clone().into()),
            model: Model::new(initial, config),
            chunks,
            messages: BTreeMap::new(),
            finished: Vec::new(),
        }
    }

    fn arrive(&mut self, number: u32) -> DataOutcome {
        let Some(chunk) = self.chunks.get(number.wrapping_sub(1) as usize) else {
            return DataOutcome::Duplicate;
        };
        let tsn = self.model.tsn(number);
        let outcome = self.real.on_data(&chunk.data(tsn));
        assert_eq!(outcome, self.model.on_data(number, chunk), "chunk {number}");
        self.compare();
        outcome
    }

    fn read(&mut self) -> bool {
        assert_eq!(self.real.has_message(), {
            let before = self.real.buffered_bytes();
            let (real, model) = (recv(&mut self.real), self.model.recv());
            assert_eq!(
                real.as_ref().map(|(received, _)| received),
                model.as_ref().map(|(received, _)| received)
            );
            assert!(real == model, "the payload was changed");
            if let Some((received, bytes)) = real {
                assert_eq!(before - self.real.buffered_bytes(), bytes.len());
                self.messages.entry(received.ppid).or_default().extend(bytes);
                if received.end {
                    self.finished.push(received.ppid);
                }
                true
            } else {
                false
            }
        });
        self.compare();
        self.real.has_message()
    }

    fn sack(&mut self, room: usize) {
        let (mut gaps, mut duplicates) = (Vec::new(), Vec::new());
        let content = self.real.write_sack(&mut gaps, &mut duplicates, room);
        let (cumulative, window, blocks, listed) = self.model.sack(room);
        assert_eq!(
            (content.cumulative_tsn_ack, u64::from(content.a_rwnd)),
            (cumulative, window)
        );
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes
                .chunks(4)
                .map(|w| u32::from_be_bytes(w.try_into().expect("four bytes")))
                .collect()
        };
        assert_eq!(
            words(&gaps),
            blocks.iter().map(|(s, e)| s << 16 | e).collect::<Vec<_>>()
        );
        assert_eq!(words(&duplicates), listed);
        assert!(16 + gaps.len() + duplicates.len() <= room.max(16));
        self.compare();
    }

    fn compare(&self) {
        let (real, model) = (&self.real, &self.model);
        assert_eq!(real.cumulative_tsn(), model.tsn(model.cumulative()));
        assert_eq!(real.has_gap(), model.highest() > model.cumulative());
        assert_eq!(real.buffered_bytes() as u64, model.payload_held());
        assert_eq!(real.store.charged_bytes() as u64, model.memory_held());
        assert_eq!(u64::from(real.advertised_window()), model.window());
    }

    /// Sends missing chunks, the lowest TSN first, and reads, until everything has been delivered.
    fn finish(&mut self) {
        let all = self.chunks.len() as u32;
        for _ in 0..10_000 {
            self.sack(1000);
            if self.model.cumulative() == all && !self.real.has_message() {
                return self.check_delivery();
            }
            // A sender may always have one chunk in flight, whatever the window.
            let missing: Vec<u32> = (1..=all)
                .filter(|n| !self.model.received.contains_key(n))
                .take(3)
                .collect();
            for number in missing {
                self.arrive(number);
            }
            while self.read() {}
            if self.real.has_message() {
                self.read();
            }
        }
        panic!(
            "no end: {} of {all} chunks, window {}",
            self.model.cumulative(),
            self.model.window()
        );
    }

    /// RFC 9260 §6.6: each message is delivered once, unchanged, and in the order of its stream.
    fn check_delivery(&self) {
        let mut expected: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut order: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for chunk in self
            .chunks
            .iter()
            .filter(|c| c.stream < self.model.config.inbound_streams)
        {
            expected.entry(chunk.ppid).or_default().extend(&chunk.payload);
            if chunk.begin && !chunk.unordered {
                order.entry(chunk.stream).or_default().push(chunk.ppid);
            }
        }
        assert!(self.messages == expected, "messages were lost, added or changed");
        assert_eq!(self.finished.len(), expected.len());
        for (stream, expected) in order {
            let of_stream = |ppid: &&u32| {
                self.chunks
                    .iter()
                    .any(|c| c.ppid == **ppid && c.stream == stream && !c.unordered && c.begin)
            };
            let got: Vec<u32> = self.finished.iter().filter(of_stream).copied().collect();
            assert_eq!(got, expected, "stream {stream}");
        }
        assert_eq!((self.real.buffered_bytes(), self.real.store.charged_bytes()), (0, 0));
    }
}

/// Returns the chunks of messages given as stream, U bit and lengths of fragments; stream 3 does not exist.
fn chunks_of(messages: &[(u16, bool, Vec<usize>)]) -> Vec<Chunk> {
    let mut next_ssn = [0_u16; 4];
    let mut chunks = Vec::new();
    for (number, (stream, unordered, lens)) in messages.iter().enumerate() {
        let ssn = if *unordered {
            0x5a5a
        } else {
            next_ssn[usize::from(*stream)]
        };
        if !unordered {
            next_ssn[usize::from(*stream)] += 1;
        }
        for (index, len) in lens.iter().enumerate() {
            chunks.push(Chunk {
                stream: *stream,
                ssn,
                ppid: number as u32,
                unordered: *unordered,
                begin: index == 0,
                end: index + 1 == lens.len(),
                payload: (0..*len).map(|i| (number * 31 + index * 7 + i) as u8).collect(),
            });
        }
    }
    chunks
}

#[derive(Clone, Debug)]
enum Op {
    /// The chunk at this distance from the cumulative TSN, less a small constant.
    Arrive(u32),
    Read,
    Sack(usize),
}

fn operations() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0_u32..12).prop_map(Op::Arrive),
        2 => (0_u32..60).prop_map(Op::Arrive),
        1 => Just(Op::Read),
        1 => (0_usize..60).prop_map(Op::Sack),
    ];
    prop::collection::vec(op, 0..300)
}

fn messages() -> impl Strategy<Value = Vec<(u16, bool, Vec<usize>)>> {
    let len = prop_oneof![Just(1_usize), 1_usize..200, 200_usize..1452];
    let lens = prop_oneof![3 => prop::collection::vec(len.clone(), 1..2), 2 => prop::collection::vec(len, 1..30)];
    let stream = prop_oneof![5 => Just(0_u16), 3 => Just(1), 2 => Just(2), 1 => Just(3)];
    prop::collection::vec((stream, prop::bool::weighted(0.3), lens), 1..40)
}

fn config(recv_buffer: u32, memory: u32, mtu: u16, tsns: u16, limit: u16) -> ReceiverConfig {
    ReceiverConfig {
        memory_limit: recv_buffer + memory,
        max_tsn_window: tsns.into(),
        max_gap_blocks: limit,
        max_duplicates: limit,
        ..ReceiverConfig::new(recv_buffer, 3, mtu)
    }
}

fn configs() -> impl Strategy<Value = ReceiverConfig> {
    let buffers = prop_oneof![1500_u32..4000, 4000_u32..40_000, Just(1_000_000_u32)];
    let memory = prop_oneof![2000_u32..10_000, Just(1_000_000)];
    let mtu = prop_oneof![Just(1500_u16), 100_u16..1500];
    let tsns = prop_oneof![Just(65_535_u16), 5_u16..100];
    (buffers, memory, mtu, tsns, prop_oneof![Just(1000_u16), 0_u16..5])
        .prop_map(|(b, m, mtu, t, l)| config(b, m, mtu, t, l))
}

fn run(pair: &mut Pair, operations: &[Op]) {
    for op in operations {
        match op {
            Op::Arrive(ahead) => {
                let number = (pair.model.cumulative() + ahead).saturating_sub(3);
                pair.arrive(number);
            }
            Op::Read => {
                pair.read();
            }
            Op::Sack(room) => pair.sack(*room),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Chunks are lost, duplicated, reordered, fragmented or dropped for lack of space.
    #[test]
    fn the_receiver_agrees_with_its_model(config in configs(), messages in messages(), operations in operations()) {
        let mut pair = Pair::new(&config, chunks_of(&messages));
        run(&mut pair, &operations);
        pair.finish();
    }
}

#[test]
fn the_receiver_agrees_with_its_model_when_the_buffer_is_always_full() {
    let mut reneged = 0;
    let mut partial = 0;
    for seed in 0..60 {
        let mut rng = Rng::stream(seed, "full buffer");
        let messages: Vec<_> = (0..60)
            .map(|_| {
                let fragments = if rng.chance(0.2) { 1 + rng.below(20) } else { 1 };
                let lens = (0..fragments).map(|_| 1 + rng.below(1000) as usize).collect();
                (rng.below(3) as u16, rng.chance(0.3), lens)
            })
            .collect();
        let mut pair = Pair::new(&config(3000, 6000, 600, 100, 1000), chunks_of(&messages));
        for _ in 0..2000 {
            let op = match rng.below(20) {
                0 => Op::Sack(1000),
                1 => Op::Read,
                _ => Op::Arrive(rng.below(20) as u32),
            };
            run(&mut pair, &[op]);
            partial += usize::from(!pair.real.partials.is_empty());
        }
        reneged += pair.real.stats().reneged;
        pair.finish();
    }
    assert!(
        reneged > 100 && partial > 100,
        "{reneged} dropped again, {partial} times partly read"
    );
}
