//! What a call of sending has brought about elsewhere.

use crate::PathId;
use crate::event::{CloseReason, Event};

/// What a call of [`Sending`](super::Sending) has brought about outside of it. The caller applies it.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Progress {
    /// News for the user about paths and messages, in order. Rare, and small while there are none.
    news: Option<Box<News>>,
    /// The send buffer has the room that the user waits for.
    pub(crate) has_space: bool,
    /// All data is acknowledged, which the user waits for.
    pub(crate) is_idle: bool,
    /// The association has to end.
    pub(crate) end: Option<End>,
    /// A path whose packets are not answered: a NAT may have given this end another address.
    pub(crate) suspect: Option<PathId>,
    /// The peer's addresses have changed, so that the endpoint must update its tables.
    pub(crate) renamed: bool,
    /// The peer has acknowledged data.
    pub(crate) data_acked: bool,
}

#[derive(Debug, Default)]
struct News(Vec<Event>);

impl Progress {
    /// Adds news for the user.
    pub(crate) fn report(&mut self, event: Event) {
        self.news.get_or_insert_default().0.push(event);
    }

    /// Returns whether the caller has more to do than to note that data was acknowledged.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        let has_news = self.news.is_some() || self.has_space || self.is_idle;
        has_news || self.renamed || self.end.is_some() || self.suspect.is_some()
    }

    /// Takes the news for the user.
    pub(crate) fn take_news(&mut self) -> impl Iterator<Item = Event> + use<> {
        let news = self.news.take().into_iter().flat_map(|news| news.0);
        let space = core::mem::take(&mut self.has_space).then_some(Event::SendSpace);
        let idle = core::mem::take(&mut self.is_idle).then_some(Event::SendIdle);
        news.chain(space).chain(idle)
    }
}

/// Why the association has to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// The error counter of the association exceeds its limit (RFC 9260 §8.1).
    Unreachable,
    /// HEARTBEATs are answered, data is not.
    DataUnanswered,
}

impl From<End> for CloseReason {
    fn from(end: End) -> Self {
        match end {
            End::Unreachable => CloseReason::PeerUnreachable,
            End::DataUnanswered => CloseReason::DataUnanswered,
        }
    }
}
