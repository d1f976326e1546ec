//! A reset of inbound streams that waits (RFC 6525 §5.2.2 E2).

use whimbrel_wire::{Data, Tsn};

use super::store::NONE;
use crate::streams::StreamList;

/// The reset that waits for data from before it, or for the reader. Without one it takes a pointer.
#[derive(Debug, Default)]
pub(super) struct WaitingReset(Option<Box<Reset>>);

#[derive(Debug)]
struct Reset {
    /// The last TSN from before.
    last_tsn: Tsn,
    streams: StreamList,
    /// Everything from before has arrived or is given up.
    has_arrived: bool,
    /// The last message that was complete then and that the reader has not taken, or `NONE`.
    unread: u32,
}

impl WaitingReset {
    /// A reset waits from now on. An earlier one is forgotten.
    pub(super) fn begin(&mut self, last_tsn: Tsn, streams: StreamList) {
        self.0 = Some(Box::new(Reset {
            last_tsn,
            streams,
            has_arrived: false,
            unread: NONE,
        }));
    }

    /// Returns the streams that are about to be reset, the last TSN from before, and whether everything from before had arrived at the last
    /// call of [`WaitingReset::on_arrived`].
    pub(super) fn get(&self) -> Option<(&StreamList, Tsn, bool)> {
        let reset = self.0.as_deref()?;
        Some((&reset.streams, reset.last_tsn, reset.has_arrived))
    }

    /// Everything from before has arrived. `unread`: the last complete message that the reader has not taken, or `NONE`.
    pub(super) fn on_arrived(&mut self, unread: u32) {
        if let Some(reset) = &mut self.0 {
            reset.has_arrived = true;
            reset.unread = unread;
        }
    }

    /// Messages of a stream that waited for the end of another one have become ready, up to this one. They are from before: nothing of the
    /// streams has been accepted since.
    pub(super) fn on_appended(&mut self, stream: u16, last: u32) {
        if let Some(reset) = &mut self.0
            && reset.has_arrived
            && reset.streams.contains(stream)
        {
            reset.unread = last;
        }
    }

    /// The reader takes this message.
    #[inline]
    pub(super) fn on_taken(&mut self, head: u32) {
        if let Some(reset) = &mut self.0
            && reset.unread == head
        {
            reset.unread = NONE;
        }
    }

    /// Returns whether the reader has taken all messages that were complete when everything from before had arrived.
    pub(super) fn is_read(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|reset| reset.has_arrived && reset.unread == NONE)
    }

    /// Ends the waiting. Returns the streams.
    pub(super) fn end(&mut self) -> Option<StreamList> {
        self.0.take().map(|reset| reset.streams)
    }

    /// Returns whether a chunk belongs to a stream that waits for its reset, and comes after it. It is not accepted: a sender waits for the
    /// response (RFC 6525 §5.1.2 A1).
    #[inline]
    pub(super) fn precedes(&self, data: &Data<'_>) -> bool {
        let precedes = |reset: &Reset| data.tsn.is_after(reset.last_tsn) && reset.streams.contains(data.stream);
        self.0.as_deref().is_some_and(precedes)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let reset = self.0.as_ref();
        reset.map_or(0, |reset| size_of::<Reset>() + reset.streams.heap_bytes())
    }
}
