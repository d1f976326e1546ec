//! Changes of the streams of an association (RFC 6525).

use whimbrel_wire::NumberList;

/// Streams of one direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamList(
    /// In ascending order, each once; `None`: all streams.
    Option<Box<[u16]>>,
);

impl StreamList {
    /// All streams.
    pub const ALL: StreamList = StreamList(None);

    /// Returns the list of these streams, in any order.
    pub fn of(streams: impl IntoIterator<Item = u16>) -> Self {
        let mut streams: Vec<u16> = streams.into_iter().collect();
        streams.sort_unstable();
        streams.dedup();
        StreamList(Some(streams.into()))
    }

    /// Returns the list of a request: without a stream, it is that of all (RFC 6525 §4.1).
    pub(crate) fn requested(streams: NumberList<'_>) -> Self {
        if streams.is_empty() {
            StreamList::ALL
        } else {
            StreamList::of(streams.iter())
        }
    }

    /// Returns the streams in ascending order; `None`: all.
    #[must_use]
    pub fn listed(&self) -> Option<&[u16]> {
        self.0.as_deref()
    }

    /// Returns whether a stream is in the list.
    #[must_use]
    pub fn contains(&self, stream: u16) -> bool {
        self.0
            .as_ref()
            .is_none_or(|streams| streams.binary_search(&stream).is_ok())
    }

    /// Returns whether each stream of the other list is in this one.
    #[must_use]
    pub fn includes(&self, other: &StreamList) -> bool {
        match (&self.0, &other.0) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(streams)) => streams.iter().all(|&stream| self.contains(stream)),
        }
    }

    /// Returns whether no stream is in the list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed() == Some(&[])
    }

    /// Returns the streams of this list that are not in the other one. A part of all streams cannot be named: it is all.
    #[must_use]
    pub fn without(&self, other: &StreamList) -> StreamList {
        match &self.0 {
            None if *other != StreamList::ALL => StreamList::ALL,
            None => StreamList::of([]),
            Some(streams) => StreamList::of(streams.iter().copied().filter(|&stream| !other.contains(stream))),
        }
    }

    /// Returns whether the lists, neither of them empty, have a stream in common.
    pub(crate) fn overlaps(&self, other: &StreamList) -> bool {
        match &self.0 {
            None => true,
            Some(streams) => streams.iter().any(|&stream| other.contains(stream)),
        }
    }

    /// Returns the number of streams that a request lists: none for all.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |streams| streams.len())
    }

    /// Returns the last stream that is listed.
    pub(crate) fn last(&self) -> Option<u16> {
        self.0.as_ref()?.last().copied()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.len() * size_of::<u16>()
    }
}

/// A change of the streams of an association (RFC 6525). A stream leads in one direction: outbound and inbound streams with the same number are
/// independent of each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamChange {
    /// The numbers of the messages that this end sends on these streams start at 0 again.
    ResetOutbound(StreamList),
    /// Those of the messages that the peer sends start at 0 again.
    ResetInbound(StreamList),
    /// There are this many outbound streams more.
    AddOutbound(u16),
    /// There are this many inbound streams more.
    AddInbound(u16),
}

/// The reason why a change of streams was not requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamChangeError {
    /// The association is not established, or is ending.
    #[error("the association is not established")]
    NotEstablished,
    /// One of the ends does not support changes of streams, or has not enabled them.
    #[error("the association cannot change its streams: both ends have to agree on that as it begins (stream_changes)")]
    NotSupported,
    /// The list is empty.
    #[error("no stream is named")]
    NoStream,
    /// A stream does not exist.
    #[error("stream {stream} does not exist: there are {available}")]
    NoSuchStream {
        /// The stream.
        stream: u16,
        /// Number of streams of that direction.
        available: u16,
    },
    /// One of the streams is about to be reset.
    #[error("one of the streams is about to be reset: wait until that is done")]
    InProgress,
    /// The list does not fit into a packet.
    #[error("a list of {0} streams does not fit into a packet: reset all streams, or fewer at a time")]
    TooManyListed(usize),
    /// None is added, or there would be more than 65535 streams, with those that are requested already.
    #[error("the number of streams to add is 1 to 65535 less the {0} that exist or are requested")]
    Number(u32),
    /// There would be more inbound streams than this end allows.
    #[error("there would be more than {0} inbound streams (max_inbound_streams)")]
    OverLimit(u16),
    /// As many changes wait as may.
    #[error("32 changes of streams are waiting already")]
    TooManyWaiting,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_as_sets() {
        let some = |streams: &[u16]| StreamList::of(streams.iter().copied());
        let all = StreamList::ALL;
        assert_eq!(some(&[3, 1, 3]), some(&[1, 3]));
        assert_eq!(some(&[3, 1, 3]).listed(), Some(&[1, 3][..]));
        assert!(some(&[1, 3]).contains(3) && !some(&[1, 3]).contains(2) && all.contains(2));
        assert!(some(&[1, 3]).overlaps(&some(&[3, 4])) && !some(&[1, 3]).overlaps(&some(&[2, 4])));
        assert!(all.overlaps(&some(&[1])) && some(&[1]).overlaps(&all));
        assert!(some(&[1, 3]).includes(&some(&[3])) && !some(&[1, 3]).includes(&some(&[3, 4])));
        assert!(all.includes(&all) && all.includes(&some(&[1])) && !some(&[1]).includes(&all));
        assert_eq!((some(&[1, 3]).last(), all.last()), (Some(3), None));
    }

    #[test]
    fn only_a_request_without_a_stream_names_all() {
        assert_eq!(StreamList::requested(NumberList::from_wire_bytes(&[])), StreamList::ALL);
        assert_eq!(
            StreamList::requested(NumberList::from_wire_bytes(&[0, 7])),
            StreamList::of([7])
        );
        assert_ne!(StreamList::of([]), StreamList::ALL);
        assert!(!StreamList::of([]).contains(0));
    }
}
