//! The queue against a slow reference model: a list of messages in the order of the user, searched for every answer.

use whimbrel_control::Rng;

use super::*;
use crate::message::MessagePayload;
use crate::message::Reliability;

/// As in `schedule.rs`.
const TAGS_PER_BYTE: u64 = 1 << 24;

/// A message that is longer is long.
const LONG: u32 = 25;

struct Waiting {
    message: Message,
    limit: Limit,
    taken: usize,
    number: u32,
    fsn: u32,
}

impl Waiting {
    fn left(&self) -> usize {
        self.message.len() - self.taken
    }

    fn held(&self) -> Buffered {
        Buffered::one(self.left(), self.message.len() > LONG as usize)
    }

    fn is_begun(&self) -> bool {
        self.taken > 0
    }

    /// Returns the number of a message that gives way and has not been begun.
    fn gives_way(&self, limit: Limit) -> Option<u16> {
        match self.limit {
            Limit::Priority(number) if self.limit.gives_way_to(limit) && !self.is_begun() => Some(number),
            _ => None,
        }
    }
}

#[derive(Clone, Default)]
struct Stream {
    value: u16,
    /// When it was put behind its equals.
    turn: u64,
    /// Start tag of its next chunk, and finish tag of the last one.
    start: u64,
    finish: u64,
    /// Next numbers of ordered and unordered messages.
    next: [u32; 2],
}

struct Model {
    scheduler: Scheduler,
    is_interleaved: bool,
    messages: Vec<Waiting>,
    streams: Vec<Stream>,
    turn: u64,
    virtual_time: u64,
    of_packet: Option<usize>,
    /// With interleaving: messages that are begun at most, and bytes of the longest chunk.
    most_begun: usize,
    max_chunk: usize,
}

impl Model {
    fn waits(&self, stream: usize) -> bool {
        self.first_of(stream).is_some()
    }

    fn first_of(&self, stream: usize) -> Option<usize> {
        self.messages
            .iter()
            .position(|waiting| usize::from(waiting.message.stream) == stream)
    }

    fn is_fair(&self) -> bool {
        matches!(self.scheduler, Scheduler::FairCapacity | Scheduler::WeightedFair)
    }

    fn key(&self, stream: usize) -> (u64, u64) {
        let state = &self.streams[stream];
        let rank = match self.scheduler {
            Scheduler::Priority => u64::from(state.value),
            _ if self.is_fair() => state.start,
            _ => 0,
        };
        (rank, state.turn)
    }

    /// Returns the streams that wait, in their order.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.streams.len()).filter(|&stream| self.waits(stream)).collect();
        order.sort_by_key(|&stream| self.key(stream));
        order
    }

    /// Returns the place of the next message.
    fn next(&self) -> Option<usize> {
        if self.scheduler == Scheduler::FirstCome {
            return (!self.messages.is_empty()).then_some(0);
        }
        if !self.is_interleaved
            && let Some(begun) = self.messages.iter().position(Waiting::is_begun)
        {
            return Some(begun);
        }
        if let Some(stream) = self.of_packet {
            return self.first_of(stream);
        }
        let mut order = self.order().into_iter().filter_map(|stream| self.first_of(stream));
        order.find(|&place| self.may_send(place))
    }

    /// Returns whether the message may begin, or go on.
    fn may_send(&self, place: usize) -> bool {
        let waiting = &self.messages[place];
        let begun = self.messages.iter().filter(|waiting| waiting.is_begun()).count();
        let is_short = waiting.left() <= self.max_chunk;
        !self.is_interleaved || waiting.is_begun() || is_short || begun < self.most_begun
    }

    /// The packet gets data of another stream if that stream may not begin its next message.
    fn watch_begun(&mut self) {
        let next = self.of_packet.and_then(|stream| self.first_of(stream));
        if next.is_some_and(|place| !self.may_send(place)) {
            self.of_packet = None;
        }
    }

    /// Puts a stream behind its equals.
    fn requeue(&mut self, stream: usize) {
        self.turn += 1;
        let state = &mut self.streams[stream];
        state.turn = self.turn;
        state.start = state.finish.max(self.virtual_time);
    }

    fn push(&mut self, message: Message, now: Time) {
        let stream = usize::from(message.stream);
        if !self.waits(stream) {
            self.requeue(stream);
        }
        self.messages.push(Waiting {
            limit: Limit::of(message.reliability, now),
            message,
            taken: 0,
            number: 0,
            fsn: 0,
        });
    }

    /// All streams are equal after an idle period.
    fn watch_idle(&mut self) {
        if self.messages.is_empty() {
            self.virtual_time = 0;
            self.streams.iter_mut().for_each(|stream| stream.finish = 0);
        }
    }

    /// Cuts a message. Returns what its fragment has besides the content.
    fn cut(&mut self, place: usize, len: usize) -> Fragment {
        let waiting = &mut self.messages[place];
        let message = &waiting.message;
        let begin = waiting.taken == 0;
        if begin {
            let next = &mut self.streams[usize::from(message.stream)].next[usize::from(message.unordered)];
            if self.is_interleaved || !message.unordered {
                waiting.number = *next;
                *next = next.wrapping_add(1);
            }
            if !self.is_interleaved {
                *next %= 1 << 16;
            }
        }
        let payload = match &message.payload {
            MessagePayload::Zeros(_) => MessagePayload::Zeros(len as u32),
            MessagePayload::Bytes(bytes) => MessagePayload::Bytes(bytes.slice(waiting.taken..waiting.taken + len)),
        };
        let fsn = waiting.fsn;
        waiting.fsn += u32::from(self.is_interleaved);
        waiting.taken += len;
        let end = waiting.left() == 0;
        Fragment {
            stream: message.stream,
            number: waiting.number,
            fsn,
            ppid: message.ppid,
            context: message.context,
            unordered: message.unordered,
            immediate: message.immediate && end,
            begin,
            end,
            is_long: message.len() > LONG as usize,
            payload,
        }
    }

    fn take(&mut self, len: usize) -> Option<Fragment> {
        let place = self.next()?;
        let fragment = self.cut(place, len);
        let stream = usize::from(fragment.stream);
        if fragment.end {
            self.messages.remove(place);
        }
        let weight = match self.scheduler {
            Scheduler::WeightedFair => u64::from(self.streams[stream].value.max(1)),
            _ => 1,
        };
        let state = &mut self.streams[stream];
        self.virtual_time = self.virtual_time.max(state.start);
        state.finish = state.finish.max(state.start) + len as u64 * TAGS_PER_BYTE / weight;
        match self.scheduler {
            Scheduler::RoundRobinPacket => self.of_packet = Some(stream),
            _ if fragment.end || self.is_interleaved => self.requeue(stream),
            _ => {}
        }
        self.watch_idle();
        Some(fragment)
    }

    fn end_packet(&mut self) {
        if let Some(stream) = self.of_packet.take() {
            self.requeue(stream);
        }
    }

    /// Removes the message at a place, or the rest of it. Returns it, and its last fragment if it was begun.
    fn drop_at(&mut self, place: usize) -> (Message, Option<Fragment>) {
        let was_begun = self.messages[place].is_begun();
        let left = self.messages[place].left();
        let last = was_begun.then(|| Fragment {
            payload: MessagePayload::Zeros(0),
            immediate: false,
            ..self.cut(place, left)
        });
        let message = self.messages.remove(place).message;
        if was_begun && !self.is_interleaved && self.scheduler != Scheduler::RoundRobinPacket {
            self.requeue(message.stream.into());
        }
        self.watch_idle();
        (message, last)
    }

    fn drop_rest(&mut self, stream: usize) -> Option<Fragment> {
        let place = self.begun(stream)?;
        self.drop_at(place).1
    }

    fn begun(&self, stream: usize) -> Option<usize> {
        self.first_of(stream).filter(|&place| self.messages[place].is_begun())
    }

    fn drop_for(&mut self, limit: Limit, least: u16) -> Option<Message> {
        let order = self.order();
        let candidates = self.messages.iter().enumerate().filter_map(|(place, waiting)| {
            let number = waiting.gives_way(limit).filter(|&number| number >= least)?;
            let stream = match self.scheduler {
                Scheduler::FirstCome => 0,
                _ => order
                    .iter()
                    .position(|&stream| stream == usize::from(waiting.message.stream))?,
            };
            Some((number, stream, place))
        });
        let (_, _, place) = candidates.max()?;
        Some(self.drop_at(place).0)
    }

    fn yields(&self, limit: Limit) -> Buffered {
        let all = self
            .messages
            .iter()
            .filter(|waiting| waiting.gives_way(limit).is_some());
        all.map(Waiting::held).sum()
    }

    /// Removes messages, in the order of the user, or by stream.
    fn remove(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<(Message, bool)> {
        let mut removed = Vec::new();
        let mut place = 0;
        while place < self.messages.len() {
            if which(&self.messages[place]) {
                let waiting = self.messages.remove(place);
                let was_begun = waiting.is_begun();
                removed.push((waiting.message, was_begun));
            } else {
                place += 1;
            }
        }
        if self.scheduler != Scheduler::FirstCome {
            removed.sort_by_key(|(message, _)| message.stream);
        }
        self.watch_idle();
        removed
    }

    fn clear(&mut self) -> Vec<(Message, bool)> {
        self.streams.iter_mut().for_each(|stream| stream.next = [0; 2]);
        self.of_packet = None;
        self.remove(|_| true)
    }
}

fn fragment_parts(fragment: &Fragment) -> impl PartialEq + std::fmt::Debug {
    let f = fragment.clone();
    let marks = (f.unordered, f.immediate, f.begin, f.end, f.is_long);
    (f.stream, f.number, f.fsn, f.ppid, f.context, marks, f.payload)
}

/// Messages leave the queue without their reliability.
fn without_limit(message: &Message) -> Message {
    Message {
        reliability: Reliability::Full,
        ..message.clone()
    }
}

fn any_message(rng: &mut Rng, streams: u64, context: u32) -> Message {
    let len = if rng.chance(0.3) {
        30 + rng.below(60)
    } else {
        1 + rng.below(20)
    };
    let payload = if rng.chance(0.5) {
        MessagePayload::Zeros(len as u32)
    } else {
        MessagePayload::Bytes((0..len).map(|place| place as u8 ^ context as u8).collect())
    };
    Message {
        stream: rng.below(streams) as u16,
        ppid: context * rng.below(2) as u32,
        unordered: rng.chance(0.3),
        immediate: rng.chance(0.2),
        context: context * rng.below(2) as u32,
        reliability: if rng.chance(0.3) {
            Reliability::Priority(rng.below(6) as u16)
        } else {
            Reliability::Full
        },
        payload,
    }
}

fn any_limit(rng: &mut Rng) -> Limit {
    if rng.chance(0.5) {
        Limit::Never
    } else {
        Limit::Priority(rng.below(5) as u16)
    }
}

struct Pair {
    real: SendQueue,
    model: Model,
}

impl Pair {
    fn new(scheduler: Scheduler, is_interleaved: bool, streams: usize) -> Self {
        let mut real = SendQueue::new(scheduler, LONG);
        real.interleave(is_interleaved);
        let model = Model {
            scheduler,
            is_interleaved,
            messages: Vec::new(),
            streams: vec![Stream::default(); streams],
            turn: 0,
            virtual_time: 0,
            of_packet: None,
            most_begun: usize::MAX,
            max_chunk: 0,
        };
        Pair { real, model }
    }

    fn take(&mut self, rng: &mut Rng) {
        let Some(left) = self.real.next_len() else {
            assert!(self.real.take(1).is_none() && self.model.next().is_none());
            return;
        };
        let len = left.min(1 + rng.below(25) as usize);
        let (real, model) = (self.real.take(len).unwrap(), self.model.take(len).unwrap());
        assert!(
            fragment_parts(&real) == fragment_parts(&model),
            "{real:?}, not {model:?}"
        );
    }

    fn drop_next(&mut self) {
        let real = self.real.drop_next();
        let Some(place) = self.model.next() else {
            assert!(real.is_none());
            return;
        };
        let ((real, real_last), (message, last)) = (real.unwrap(), self.model.drop_at(place));
        assert_eq!(
            real_last.as_ref().map(fragment_parts),
            last.as_ref().map(fragment_parts)
        );
        if last.is_none() {
            assert_eq!(real, without_limit(&message));
        } else {
            assert_eq!(
                (real.stream, real.context, real.ppid),
                (message.stream, message.context, message.ppid)
            );
        }
    }

    /// A random operation.
    fn step(&mut self, rng: &mut Rng, context: u32) {
        let streams = self.model.streams.len() as u64;
        self.random_operation(rng, context, streams);
        self.model.watch_begun();
    }

    fn random_operation(&mut self, rng: &mut Rng, context: u32, streams: u64) {
        match rng.below(100) {
            0..40 => {
                let message = any_message(rng, streams, context);
                self.real.push(message.clone(), Time::ZERO);
                self.model.push(message, Time::ZERO);
            }
            40..80 => self.take(rng),
            80..86 => {
                self.real.end_packet();
                self.model.end_packet();
            }
            86..89 => {
                let stream = rng.below(streams) as u16;
                let value = rng.below(4) as u16;
                self.real.set_value(stream, value);
                self.model.streams[usize::from(stream)].value = value;
            }
            89..91 => self.drop_next(),
            91..94 => {
                let stream = rng.below(streams) as u16;
                let first_come = self.model.scheduler == Scheduler::FirstCome;
                let begun = self.model.begun(stream.into());
                assert!(!first_come || begun.is_none_or(|place| place == 0));
                let (real, model) = (self.real.drop_rest(stream), self.model.drop_rest(stream.into()));
                assert_eq!(real.as_ref().map(fragment_parts), model.as_ref().map(fragment_parts));
            }
            94..97 => {
                let (limit, least) = (any_limit(rng), rng.below(4) as u16);
                let dropped = self.model.drop_for(limit, least);
                assert_eq!(self.real.drop_for(limit, least), dropped.as_ref().map(without_limit));
            }
            97 => self.real.release_memory(),
            _ if rng.chance(0.2) => {
                self.model.most_begun = 1 + rng.below(4) as usize;
                self.real.limit_begun(self.model.most_begun);
                self.model.watch_begun();
                self.model.max_chunk = 5 + rng.below(30) as usize;
                self.real.limit_chunks(self.model.max_chunk as u16);
            }
            _ if rng.chance(0.7) => {
                let from = rng.below(streams + 1) as u16;
                let mut dropped = Vec::new();
                self.real
                    .drop_streams(from, |message| dropped.push(without_limit(message)));
                let expected = self
                    .model
                    .remove(|waiting| waiting.message.stream >= from && !waiting.is_begun());
                let expected: Vec<_> = expected.iter().map(|(message, _)| without_limit(message)).collect();
                assert_eq!(dropped, expected);
            }
            _ => {
                let mut dropped = Vec::new();
                self.real
                    .clear(|message, sent| dropped.push((without_limit(message), sent)));
                let expected = self.model.clear();
                let expected = expected.iter().map(|(message, sent)| (without_limit(message), *sent));
                assert_eq!(dropped, expected.collect::<Vec<_>>());
            }
        }
    }

    /// Compares all answers.
    fn compare(&self, limit: Limit) {
        let (real, model) = (&self.real, &self.model);
        let next = model.next().map(|place| &model.messages[place]);
        assert_eq!(real.is_empty(), model.messages.is_empty());
        assert_eq!(real.held().count, model.messages.len());
        assert_eq!(real.held(), model.messages.iter().map(Waiting::held).sum());
        assert_eq!(real.next_stream(), next.map(|next| next.message.stream));
        assert_eq!(real.next_len(), next.map(Waiting::left));
        assert_eq!(real.next_limit(), next.map_or(Limit::Never, |next| next.limit));
        assert_eq!(real.is_begun(), next.is_some_and(Waiting::is_begun));
        let ordered = next.filter(|next| !next.message.unordered && !next.is_begun());
        assert_eq!(real.next_ordered(), ordered.map(|next| next.message.stream));
        for stream in 0..model.streams.len() {
            let rest = model.begun(stream).map(|place| model.messages[place].held());
            assert_eq!(real.rest(stream as u16), rest.unwrap_or_default());
        }
        assert_eq!(real.yields(limit), model.yields(limit));
        let has_limits = model.messages.iter().any(|waiting| waiting.limit != Limit::Never);
        assert!(real.has_limits() || !has_limits);
    }
}

#[test]
fn the_queue_agrees_with_its_model() {
    for scheduler in Scheduler::ALL {
        for is_interleaved in [false, true] {
            for seed in 0..30 {
                let mut rng = Rng::stream(seed, "send queue");
                let mut pair = Pair::new(scheduler, is_interleaved, 1 + seed as usize % 7);
                for context in 0..600 {
                    pair.step(&mut rng, context);
                    pair.compare(any_limit(&mut rng));
                }
            }
        }
    }
}

#[test]
fn shares_of_backlogged_streams_stay_within_the_bound_of_start_time_fair_queueing() {
    for seed in 0..20 {
        let mut rng = Rng::stream(seed, "fair shares");
        let is_interleaved = rng.chance(0.5);
        let mut queue = SendQueue::new(Scheduler::WeightedFair, u32::MAX);
        queue.interleave(is_interleaved);
        let largest: u32 = 500;
        let weights: Vec<u16> = (0..5)
            .map(|_| {
                let bits = rng.below(16);
                1 + rng.below(1 << bits) as u16
            })
            .collect();
        for (stream, &weight) in weights.iter().enumerate() {
            queue.set_value(stream as u16, weight);
            for _ in 0..3000 {
                let len = 1 + rng.below(u64::from(largest)) as u32;
                queue.push(Message::zeros(stream as u16, len), Time::ZERO);
            }
        }
        let mut taken = [0_u32; 5];
        for _ in 0..2500 {
            let fragment = chunk(&mut queue, 200).unwrap();
            taken[usize::from(fragment.stream)] += fragment.payload.len() as u32;
            for (own, own_weight) in taken.iter().zip(&weights) {
                for (other, other_weight) in taken.iter().zip(&weights) {
                    let [own_weight, other_weight] = [own_weight, other_weight].map(|&weight| f64::from(weight));
                    let apart = f64::from(*own) / own_weight - f64::from(*other) / other_weight;
                    let bound = f64::from(largest) / own_weight + f64::from(largest) / other_weight;
                    // Tags are rounded down, by less than 2^-24 bytes for each chunk.
                    assert!(apart <= bound + 0.001, "seed {seed}, {weights:?}: {taken:?}");
                }
            }
        }
    }
}
