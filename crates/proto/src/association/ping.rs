//! Heartbeats that a user sends to measure a path: numbered, of a chosen size, answered by any peer (RFC 9260 §8.3). Their answers are
//! reported and change nothing else: no error counter, no round-trip time, no timer.

use whimbrel_control::{Span, Time};
use whimbrel_wire::COMMON_HEADER_LEN;

use super::pings::Ping;
use super::{Association, State};
use crate::PathId;
use crate::context::Context;
use crate::event::Event;
use crate::send::Outgoing;
use crate::send::path::{HEARTBEAT_INFO_LEN, HeartbeatContent, Path};

/// Pings of an association whose answers are awaited; the oldest is given up for a new one. It bounds the memory.
pub const MAX_PINGS: usize = 16_384;
/// Pings that may be queued while no packets are taken.
const QUEUED: usize = 256;
/// The shortest Heartbeat Info in bytes. It distinguishes the answers from those of other heartbeats.
const SHORTEST: usize = HEARTBEAT_INFO_LEN + 1;
/// Chunk header and parameter header in bytes.
const HEADERS: usize = 8;

impl Association {
    /// Sends a heartbeat whose Heartbeat Info has `bytes` bytes, as far as the path's packets allow. Returns false if there is no such
    /// path, if it is not confirmed or the association not established, or if too many pings are queued.
    pub(crate) fn ping(&mut self, ctx: &mut Context<'_>, path: PathId, number: u32, bytes: usize) -> bool {
        let Some(longest) = self
            .sending
            .paths()
            .get(path)
            .filter(|path| path.is_open())
            .map(Path::max_packet)
            .filter(|_| self.state == State::Established && !self.agreed.is_keying(self.state))
        else {
            return false;
        };
        let longest = longest.saturating_sub(COMMON_HEADER_LEN + HEADERS + self.signed_len() + self.sealed_len());
        if self.sending.control().pings() >= QUEUED {
            return false;
        }
        let pings = &mut self.user.pings.get_or_insert_default().0;
        if pings.len() >= MAX_PINGS {
            pings.pop_front();
        }
        let nonce = ctx.random.next_u64();
        pings.push_back(Ping {
            nonce,
            path,
            number,
            sent_at: None,
        });
        let len = bytes.min(longest).max(SHORTEST) as u16;
        self.sending.control().push(path, Outgoing::Ping { nonce, len });
        true
    }

    /// Returns the Heartbeat Info of a queued ping, which is sent now.
    pub(super) fn ping_info(&mut self, now: Time, path: PathId, nonce: u64, len: u16) -> Vec<u8> {
        let mut pings = self.user.pings.iter_mut().flat_map(|pings| &mut pings.0).rev();
        if let Some(ping) = pings.find(|ping| ping.nonce == nonce) {
            ping.sent_at = Some(now);
        }
        let content = HeartbeatContent {
            nonce,
            sent_at: now,
            path,
        };
        let mut info = content.to_bytes().to_vec();
        info.resize(len.into(), 0);
        info
    }

    /// Handles a HEARTBEAT ACK if it answers a ping. Returns whether it does.
    pub(super) fn on_ping_answer(&mut self, now: Time, info: &[u8]) -> bool {
        let Some(pings) = &mut self.user.pings else {
            return false;
        };
        let Some((nonce, _)) = info.split_first_chunk::<8>() else {
            return false;
        };
        let nonce = u64::from_be_bytes(*nonce);
        let is_this = |ping: &Ping| ping.nonce == nonce && ping.sent_at.is_some();
        // From the newest on: those that got no answer are the oldest.
        let Some(ping) = pings
            .0
            .iter()
            .rposition(is_this)
            .and_then(|place| pings.0.remove(place))
        else {
            return false;
        };
        let rtt = ping.sent_at.map_or(Span::ZERO, |sent_at| now.since(sent_at));
        self.user.events.push_back(Event::PingAnswered {
            path: ping.path,
            number: ping.number,
            rtt,
        });
        true
    }
}
