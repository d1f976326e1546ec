//! Changes of the streams of an association (RFC 6525).

/// Streams of one direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamList {
    /// All streams.
    All,
    /// These streams: in ascending order, each once, at least one.
    Some(Box<[u16]>),
}

impl StreamList {
    /// Returns the list of these streams, in any order. Without a stream, it is the list of all.
    pub fn of(streams: impl IntoIterator<Item = u16>) -> Self {
        let mut streams: Vec<u16> = streams.into_iter().collect();
        streams.sort_unstable();
        streams.dedup();
        if streams.is_empty() {
            StreamList::All
        } else {
            StreamList::Some(streams.into())
        }
    }

    /// Returns whether a stream is in the list.
    #[must_use]
    pub fn contains(&self, stream: u16) -> bool {
        match self {
            StreamList::All => true,
            StreamList::Some(streams) => streams.binary_search(&stream).is_ok(),
        }
    }

    /// Returns the streams, none if the list is that of all.
    #[must_use]
    pub fn listed(&self) -> &[u16] {
        match self {
            StreamList::All => &[],
            StreamList::Some(streams) => streams,
        }
    }

    /// Returns whether the lists have a stream in common.
    pub(crate) fn overlaps(&self, other: &StreamList) -> bool {
        match self {
            StreamList::All => true,
            StreamList::Some(streams) => streams.iter().any(|&stream| other.contains(stream)),
        }
    }

    /// Returns whether each stream of the other list is in this one.
    #[must_use]
    pub fn includes(&self, other: &StreamList) -> bool {
        match (self, other) {
            (StreamList::All, _) => true,
            (StreamList::Some(_), StreamList::All) => false,
            (_, StreamList::Some(streams)) => streams.iter().all(|&stream| self.contains(stream)),
        }
    }

    /// Returns whether all streams of the list exist.
    pub(crate) fn is_below(&self, streams: u16) -> bool {
        self.listed().last().is_none_or(|&last| last < streams)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(self.listed())
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
    /// There would be more streams than 65535, or none is added.
    #[error("a number of streams to add is 1 to 65535 less the {0} that exist")]
    Number(u16),
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
        assert_eq!(some(&[3, 1, 3]), some(&[1, 3]));
        assert_eq!(some(&[]), StreamList::All);
        assert!(some(&[1, 3]).contains(3) && !some(&[1, 3]).contains(2) && StreamList::All.contains(2));
        assert!(some(&[1, 3]).overlaps(&some(&[3, 4])) && !some(&[1, 3]).overlaps(&some(&[2, 4])));
        assert!(StreamList::All.overlaps(&some(&[1])) && some(&[1]).overlaps(&StreamList::All));
        assert!(some(&[1, 3]).includes(&some(&[3])) && !some(&[1, 3]).includes(&some(&[3, 4])));
        assert!(StreamList::All.includes(&StreamList::All) && !some(&[1]).includes(&StreamList::All));
        assert!(some(&[1, 3]).is_below(4) && !some(&[1, 3]).is_below(3) && StreamList::All.is_below(1));
    }
}
