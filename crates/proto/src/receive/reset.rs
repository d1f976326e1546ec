//! Resets of inbound streams (RFC 6525 §5.2.2).

use std::sync::Arc;

use whimbrel_wire::Tsn;

use super::Receiver;
use crate::streams::StreamList;

impl Receiver {
    /// The sender wants to start again at 0 on these streams, behind `last_tsn`.
    pub(crate) fn want_reset(&mut self, last_tsn: Tsn, streams: StreamList) {
        self.waiting_reset.begin(last_tsn, streams);
    }

    /// Resets the streams if everything from before has arrived and the reader has taken it: what it reads after that is from after the
    /// reset. Returns the streams once they have been reset.
    // [6525:5.2.2-3, 5.2.2-7, 5.2.2-8]
    pub(crate) fn try_reset(&mut self) -> Option<StreamList> {
        let (streams, last_tsn, has_arrived) = self.waiting_reset.get()?;
        if last_tsn.is_after(self.cumulative) {
            return None;
        }
        if !has_arrived {
            // Of messages that a faulty sender has left out nothing can arrive any more.
            let parked = self.streams.take_parked(streams);
            parked.into_iter().for_each(|head| self.make_ready(head));
            self.waiting_reset.on_arrived(self.ready.tail);
        }
        let (streams, ..) = self.waiting_reset.get()?;
        if !self.waiting_reset.is_read() || self.partials.has_any(streams) || self.partials.any_given_up() {
            return None;
        }
        let streams = self.waiting_reset.end()?;
        self.streams.reset(&streams);
        if let Some(known) = &mut self.assemblies {
            known.reset(&streams);
        }
        Some(streams)
    }

    /// Sets the number of inbound streams.
    pub(crate) fn set_inbound_streams(&mut self, count: u16) {
        Arc::make_mut(&mut self.config).inbound_streams = count;
    }
}
