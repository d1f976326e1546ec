//! The lanes of messages: one for all streams, or one for each.

use std::collections::BTreeMap;

use super::buffered::Buffered;
use super::fragment::Fragment;
use super::lane::Lane;
use super::limit::Limit;
use super::numbers::Numbers;
use super::schedule::{Place, Schedule};
use crate::config::Scheduler;
use crate::message::Message;
use crate::streams::StreamList;

/// The lanes.
#[derive(Debug)]
pub(super) enum Lanes {
    /// First come, first served: all streams share a lane.
    One(Lane),
    /// Each stream has its own.
    Many(Box<StreamLanes>),
}

/// A lane for each stream, and their order.
#[derive(Debug)]
pub(super) struct StreamLanes {
    lanes: BTreeMap<u16, Lane>,
    schedule: Schedule,
    /// A longer message needs several chunks.
    max_chunk: usize,
}

impl Lanes {
    pub(super) fn new(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::FirstCome => Lanes::One(Lane::default()),
            _ => Lanes::Many(Box::new(StreamLanes {
                lanes: BTreeMap::new(),
                schedule: Schedule::new(scheduler),
                max_chunk: 0,
            })),
        }
    }

    pub(super) fn set_value(&mut self, stream: u16, value: u16) {
        match self {
            Lanes::One(_) => {}
            Lanes::Many(many) => {
                many.schedule.set_value(stream, value);
                many.hold_back();
            }
        }
    }

    pub(super) fn interleave(&mut self, is_interleaved: bool) {
        match self {
            Lanes::One(_) => {}
            Lanes::Many(many) => many.schedule.interleave(is_interleaved),
        }
    }

    pub(super) fn limit_begun(&mut self, most: usize) {
        match self {
            Lanes::One(_) => {}
            Lanes::Many(many) => {
                many.schedule.limit_begun(most);
                many.schedule.release();
                many.hold_back();
            }
        }
    }

    pub(super) fn limit_chunks(&mut self, max: usize) {
        match self {
            Lanes::One(_) => {}
            Lanes::Many(many) => {
                many.max_chunk = max;
                many.schedule.release();
                many.hold_back();
            }
        }
    }

    /// Returns the lane of the next message. It may be empty.
    #[inline]
    pub(super) fn next(&self) -> Option<&Lane> {
        match self {
            Lanes::One(lane) => Some(lane),
            Lanes::Many(many) => many.next(),
        }
    }

    /// Returns the lane whose first message is of this stream and has been begun.
    pub(super) fn begun(&self, stream: u16) -> Option<&Lane> {
        let lane = match self {
            Lanes::One(lane) => Some(lane),
            Lanes::Many(many) => many.lanes.get(&stream),
        };
        lane.filter(|lane| lane.is_begun() && lane.next_stream() == Some(stream))
    }

    /// Returns the number of messages of these streams.
    pub(super) fn count(&self, streams: &StreamList) -> usize {
        match self {
            Lanes::One(lane) => lane.count(streams),
            Lanes::Many(many) => many.lanes.values().map(|lane| lane.count(streams)).sum(),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, message: Message, limit: Limit, is_long: bool) {
        match self {
            Lanes::One(lane) => lane.push(message, limit, is_long),
            Lanes::Many(many) => many.push(message, limit, is_long),
        }
    }

    #[inline]
    pub(super) fn take(&mut self, len: usize, is_last: bool, numbers: &mut Numbers) -> Option<Fragment> {
        match self {
            Lanes::One(lane) => lane.take(len, is_last, numbers),
            Lanes::Many(many) => many.take(len, is_last, numbers),
        }
    }

    #[inline]
    pub(super) fn end_packet(&mut self) {
        match self {
            Lanes::One(_) => {}
            Lanes::Many(many) => many.end_packet(),
        }
    }

    pub(super) fn drop_next(&mut self, numbers: &mut Numbers) -> Option<(Message, Option<Fragment>)> {
        match self {
            Lanes::One(lane) => lane.drop_next(numbers),
            Lanes::Many(many) => {
                let stream = many.schedule.next()?;
                many.drop_first(stream, numbers)
            }
        }
    }

    /// Removes what is left of the message of this stream that has been begun. There must be one.
    pub(super) fn drop_rest(&mut self, stream: u16, numbers: &mut Numbers) -> Option<Fragment> {
        let (_, last) = match self {
            Lanes::One(lane) => lane.drop_next(numbers)?,
            Lanes::Many(many) => many.drop_first(stream, numbers)?,
        };
        last
    }

    pub(super) fn drop_for(&mut self, limit: Limit, least: u16) -> Option<Message> {
        match self {
            Lanes::One(lane) => {
                let (_, place) = lane.last_for(limit, least)?;
                lane.drop_at(place)
            }
            Lanes::Many(many) => many.drop_for(limit, least),
        }
    }

    pub(super) fn yields(&self, limit: Limit) -> Buffered {
        match self {
            Lanes::One(lane) => lane.yields(limit),
            Lanes::Many(many) => many.lanes.values().map(|lane| lane.yields(limit)).sum(),
        }
    }

    pub(super) fn clear(&mut self, mut each: impl FnMut(&Message, bool)) {
        match self {
            Lanes::One(lane) => lane.clear(each),
            Lanes::Many(many) => {
                for lane in many.lanes.values_mut() {
                    lane.clear(&mut each);
                }
                many.lanes.clear();
                many.schedule.clear();
            }
        }
    }

    pub(super) fn drop_streams(&mut self, from: u16, mut each: impl FnMut(&Message)) {
        match self {
            Lanes::One(lane) => lane.drop_streams(from, each),
            Lanes::Many(many) => {
                for (&stream, lane) in many.lanes.range_mut(from..) {
                    lane.drop_streams(from, &mut each);
                    if lane.is_empty() {
                        many.schedule.on_dropped(stream, false, true);
                    }
                }
                many.hold_back();
            }
        }
    }

    pub(super) fn release_memory(&mut self) {
        match self {
            Lanes::One(lane) => lane.release_memory(),
            Lanes::Many(many) => {
                many.lanes.retain(|_, lane| {
                    lane.release_memory();
                    !lane.is_empty()
                });
                many.schedule.release_memory();
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Lanes::One(lane) => lane.heap_bytes(),
            Lanes::Many(many) => {
                size_of::<StreamLanes>()
                    + many.lanes.len() * size_of::<(u16, Lane)>()
                    + many.lanes.values().map(Lane::heap_bytes).sum::<usize>()
                    + many.schedule.heap_bytes()
            }
        }
    }
}

// The first three are not inlined, so that the code for one lane, which most associations have, stays short.
impl StreamLanes {
    #[inline(never)]
    fn next(&self) -> Option<&Lane> {
        self.lanes.get(&self.schedule.next()?)
    }

    #[inline(never)]
    fn push(&mut self, message: Message, limit: Limit, is_long: bool) {
        let stream = message.stream;
        self.lanes.entry(stream).or_default().push(message, limit, is_long);
        self.schedule.on_waiting(stream);
        self.hold_back();
    }

    #[inline(never)]
    fn take(&mut self, len: usize, is_last: bool, numbers: &mut Numbers) -> Option<Fragment> {
        let stream = self.schedule.next()?;
        let lane = self.lanes.get_mut(&stream)?;
        let fragment = lane.take(len, is_last, numbers);
        self.schedule.on_taken(stream, len, is_last, lane.is_empty());
        self.hold_back();
        fragment
    }

    #[inline(never)]
    fn end_packet(&mut self) {
        self.schedule.end_packet();
        self.hold_back();
    }

    /// Holds back the streams that would begin one message too many. Each of them is held back once for each message that it begins.
    fn hold_back(&mut self) {
        while !self.schedule.may_begin()
            && let Some(stream) = self.schedule.next()
            && let Some(lane) = self.lanes.get(&stream)
            && !lane.is_begun()
            && lane.next_len().is_some_and(|len| len > self.max_chunk)
        {
            self.schedule.hold_back(stream);
        }
    }

    /// Removes the first message of a stream, or what is left of it.
    fn drop_first(&mut self, stream: u16, numbers: &mut Numbers) -> Option<(Message, Option<Fragment>)> {
        let lane = self.lanes.get_mut(&stream)?;
        let (message, last) = lane.drop_next(numbers)?;
        self.schedule.on_dropped(stream, last.is_some(), lane.is_empty());
        self.hold_back();
        Some((message, last))
    }

    /// Among messages with the same number, that of the stream that is last in the order is dropped.
    fn drop_for(&mut self, limit: Limit, least: u16) -> Option<Message> {
        let candidates = self.schedule.places().filter_map(|of_stream| {
            let (number, place) = self.lanes.get(&of_stream.stream)?.last_for(limit, least)?;
            Some((number, of_stream, place))
        });
        let (_, Place { stream, .. }, place) = candidates.max()?;
        let lane = self.lanes.get_mut(&stream)?;
        let message = lane.drop_at(place)?;
        self.schedule.on_dropped(stream, false, lane.is_empty());
        self.hold_back();
        Some(message)
    }
}
