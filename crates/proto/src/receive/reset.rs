//! Resets of inbound streams (RFC 6525 §5.2.2).

use std::sync::Arc;

use whimbrel_wire::{Data, Tsn};

use super::Receiver;
use super::store::NONE;
use crate::streams::StreamList;

/// A reset that waits for data from before it, and for the reader.
#[derive(Debug)]
pub(super) struct WaitingReset {
    /// The last TSN from before.
    last_tsn: Tsn,
    streams: StreamList,
    /// Everything from before has arrived or is given up.
    has_arrived: bool,
    /// The last message that was complete then and that the reader has not taken, or `NONE`.
    unread: u32,
}

impl Receiver {
    /// The sender wants to start again at 0 on these streams, behind `last_tsn`. An earlier reset that waits is forgotten.
    pub(crate) fn want_reset(&mut self, last_tsn: Tsn, streams: StreamList) {
        self.waiting_reset = Some(Box::new(WaitingReset {
            last_tsn,
            streams,
            has_arrived: false,
            unread: NONE,
        }));
    }

    /// Resets the streams if everything from before has arrived and the reader has taken it: what it reads after that is from after the
    /// reset. Returns the streams once they have been reset.
    pub(crate) fn try_reset(&mut self) -> Option<StreamList> {
        let waiting = self.waiting_reset.as_deref_mut()?;
        if waiting.last_tsn.is_after(self.cumulative) {
            return None;
        }
        if !waiting.has_arrived {
            waiting.has_arrived = true;
            // Of messages that a faulty sender has left out nothing can arrive any more.
            let parked = self.streams.take_parked(&waiting.streams);
            parked.into_iter().for_each(|head| self.make_ready(head));
            if let Some(waiting) = &mut self.waiting_reset {
                waiting.unread = self.ready.tail;
            }
        }
        let waiting = self.waiting_reset.as_deref()?;
        let is_read = waiting.unread == NONE && !self.partials.has_any(&waiting.streams);
        if !is_read {
            return None;
        }
        let WaitingReset { streams, .. } = *self.waiting_reset.take()?;
        self.streams.reset(&streams);
        if let Some(known) = &mut self.assemblies {
            known.reset(&streams);
        }
        Some(streams)
    }

    /// Returns whether a chunk belongs to a stream that waits for its reset, and comes after it. It is not accepted: a sender waits for the
    /// response (RFC 6525 §5.1.2 A1).
    #[inline]
    pub(super) fn comes_after_reset(&self, data: &Data<'_>) -> bool {
        let is_after =
            |waiting: &WaitingReset| data.tsn.is_after(waiting.last_tsn) && waiting.streams.contains(data.stream);
        self.waiting_reset.as_deref().is_some_and(is_after)
    }

    /// The reader takes this message.
    #[inline]
    pub(super) fn on_taken(&mut self, head: u32) {
        if let Some(waiting) = self.waiting_reset.as_deref_mut()
            && waiting.unread == head
        {
            waiting.unread = NONE;
        }
    }

    /// Sets the number of inbound streams.
    pub(crate) fn set_inbound_streams(&mut self, count: u16) {
        Arc::make_mut(&mut self.config).inbound_streams = count;
    }
}
