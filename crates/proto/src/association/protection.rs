//! DTLS chunks of an association (draft-ietf-tsvwg-sctp-dtls-chunk): agreement, sealing and opening of packets. `crate::protection` has the keys.

use std::net::IpAddr;

use whimbrel_control::{Span, Time};
use whimbrel_wire::{Chunk, ChunkType, PacketView};

use super::{Agreement, Association, State};
use crate::config::NEVER;
use crate::endpoint::{Cookie, Farewell, Guard};
use crate::error::Discard;
use crate::protection::{KeyExchange, Opened, Party, PeerIdentity, Protection, ProtectionStats, own_offer};
use crate::send::path::Path;
use crate::{PacketMeta, PathId};

/// How long to wait for a proof of the keys before it is asked for again, and how often it is. An association without one is of no use.
const PROOF_INTERVAL: Span = Span::from_secs(1);
const MAX_PROOFS: u32 = 10;

impl Association {
    /// Makes the keys after the handshake has negotiated DTLS chunks. It is called again if the handshake is repeated: the same values give the
    /// same keys, whose sequence numbers then go on.
    // [dtls:5.1-8, 6-3, 6-4]
    pub(super) fn agree_on_protection(&mut self, agreement: &Agreement) {
        let exchange = agreement.protection.and_then(|both| {
            let own = Party {
                offer: own_offer(&self.config.protection, both.tie_breaker)?,
                tag: agreement.local_tag,
                initial_tsn: agreement.local_initial_tsn.0,
            };
            let peer = Party {
                offer: both.peer,
                tag: agreement.peer_tag,
                initial_tsn: agreement.peer_initial_tsn.0,
            };
            KeyExchange::of(own, peer)
        });
        let known = self.agreed.protection().map(Protection::exchange);
        if known != exchange.as_ref() {
            let protection = exchange.and_then(|exchange| Protection::new(&self.config.protection, exchange));
            self.agreed.set_protection(protection);
        }
        let is_managed = self.agreed.protection().is_some_and(Protection::is_managed);
        let is_in_force = self.agreed.protection().is_none_or(Protection::is_in_force);
        self.sending.hold_back(is_managed && !is_in_force);
    }

    /// Returns whether all packets after the handshake are encrypted (draft-ietf-tsvwg-sctp-dtls-chunk). If messages are exchanged for
    /// the keys, these come before: [`Event::Connected`](crate::Event::Connected) reports that the packets are encrypted.
    pub fn is_protected(&self) -> bool {
        self.agreed.protection().is_some()
    }

    /// Returns who the peer is, from [`Event::Connected`](crate::Event::Connected) to the end of the association, if a key management method has
    /// authenticated it.
    pub fn peer_identity(&self) -> Option<&PeerIdentity> {
        self.agreed.protection()?.peer()
    }

    /// Returns the key management method that both ends have agreed on, if packets are encrypted.
    pub fn key_management_method(&self) -> Option<u8> {
        Some(self.agreed.protection()?.exchange().method())
    }

    /// Returns whether packets have to be encrypted.
    pub(crate) fn requires_protection(&self) -> bool {
        self.agreed.protection().is_some_and(Protection::is_in_force)
    }

    /// Returns the counters of DTLS chunks, all zero without them.
    pub fn protection_stats(&self) -> ProtectionStats {
        self.agreed.protection().map(Protection::stats).unwrap_or_default()
    }

    /// Returns the tie breaker of the INIT, for the INIT ACK in an INIT collision (RFC 9260 §5.2.1).
    pub(crate) fn tie_breaker(&self) -> Option<u32> {
        self.agreed.tie_breaker()
    }

    /// Returns whether the packets that are sent now are encrypted: not before the handshake is done, because the peer has no keys before.
    // [dtls:5.2-3]
    pub(super) fn seals(&self) -> bool {
        let is_in_force = self.agreed.protection().is_some_and(Protection::is_in_force);
        is_in_force && !matches!(self.state, State::CookieWait | State::CookieEchoed)
    }

    /// Returns the bytes that encryption adds to each packet.
    pub(super) fn sealed_len(&self) -> usize {
        self.agreed.protection().map_or(0, Protection::packet_overhead)
    }

    /// Returns whether a key must not be used any more, so that nothing can be sent (RFC 9147 §4.5.3).
    pub(super) fn has_spent_keys(&self) -> bool {
        // The endpoint has taken the keys of an association that has ended.
        self.state != State::Closed && self.agreed.protection().is_some_and(Protection::is_used_up)
    }

    /// Returns what protects a packet that does not come from the queue of control chunks; `None` if it must not be sent. `is_signed`: RFC 4895
    /// applies to it.
    pub(super) fn guard(&mut self, is_signed: bool) -> Option<Guard> {
        match self.agreed.protection_mut() {
            Some(protection) if protection.is_in_force() => return protection.seal().map(Guard::Sealed),
            Some(_) => return Some(Guard::Nothing),
            None => {}
        }
        let auth = self.agreed.auth.as_ref().filter(|_| is_signed);
        Some(auth.map_or(Guard::Nothing, |auth| Guard::Signed(auth.signer.clone())))
    }

    /// Returns the path of a packet, if its source is verified, or named by the peer. Addresses listed in the handshake are named, but not
    /// authenticated: they get no data before they have answered.
    pub(crate) fn known_path(&self, meta: &PacketMeta) -> Option<PathId> {
        let path = self.sending.path_of_packet(meta);
        path.filter(|path| self.sending.paths()[*path].is_named_or_verified())
    }

    /// Returns the path of an opened packet that verifies its source: it answers the HEARTBEAT of this path.
    pub(crate) fn path_to_verify(&self, meta: &PacketMeta, packet: &PacketView<'_>) -> Option<PathId> {
        let path = self.sending.path_of_packet(meta)?;
        let is_answer =
            |chunk| matches!(chunk, Ok(Chunk::HeartbeatAck(info)) if self.sending.awaits_answer(path, info.0));
        packet.chunks().any(is_answer).then_some(path)
    }

    /// Opens a packet of the peer that arrived on this path, if it is known. `plain` has its chunks then. Nothing else has changed: the packet counts
    /// when it is [accepted](Self::accept_packet).
    ///
    /// # Errors
    /// Returns an error if the packet must be silently discarded.
    pub(crate) fn open_packet(
        &mut self,
        now: Time,
        from: Option<PathId>,
        packet: &PacketView<'_>,
        plain: &mut Vec<u8>,
    ) -> Result<Opened, Discard> {
        if from.is_none() && self.agreed.asconf.is_none() {
            // Without ASCONF, no packet of an unknown source is processed.
            return Err(Discard::OutOfTheBlue);
        }
        let protection = self.agreed.protection_mut().ok_or(Discard::Unexpected)?;
        let opened = protection.open_packet(now, from, packet, plain)?;
        protection.count(packet.wire_len());
        Ok(opened)
    }

    /// An opened packet has come from the peer: it is marked as received. A copy from elsewhere is not, which would make a replay of the original.
    /// Returns whether it is the first proof that the peer has the keys, of which the user must learn.
    pub(crate) fn accept_packet(&mut self, now: Time, from: Option<PathId>, opened: Opened) -> bool {
        self.agreed.protection_mut().is_some_and(|protection| {
            protection.accept(now, from, opened);
            protection.take_proof()
        })
    }

    /// Returns whether the association was established by a COOKIE ECHO, which anyone can send, and the peer has not shown yet that it has the
    /// keys. The user does not know of the association before.
    pub(super) fn awaits_proof(&self) -> bool {
        self.proof_due() != NEVER || self.agreed.is_keying(self.state)
    }

    /// Returns when to ask again for a packet that opens.
    pub(super) fn proof_due(&self) -> Time {
        self.agreed.protection().map_or(NEVER, Protection::proof_due)
    }

    /// Returns whether the peer must show that it has the keys before the user learns of the association.
    pub(super) fn needs_proof(&self) -> bool {
        self.agreed
            .protection()
            .is_some_and(|protection| !protection.is_confirmed())
    }

    /// Returns whether a peer has opened the association and not shown that it has the keys, also after the end.
    pub(crate) fn lacks_proof(&self) -> bool {
        self.ends.accepted && self.needs_proof()
    }

    /// Waits for a packet that opens. The HEARTBEAT that goes with the COOKIE ACK asks for one.
    pub(super) fn await_proof(&mut self, now: Time) {
        self.handshake.init_retransmits = 0;
        self.ask_for_proof(now);
    }

    fn ask_for_proof(&mut self, now: Time) {
        if let Some(protection) = self.agreed.protection_mut() {
            protection.await_proof(now + PROOF_INTERVAL);
        }
    }

    /// No packet has opened in time. Returns whether to ask for one again, rather than to end the association.
    pub(super) fn awaits_proof_again(&mut self, now: Time) -> bool {
        self.handshake.init_retransmits += 1;
        self.ask_for_proof(now);
        // With messages for the keys, the peer can answer once it has received the last one of them.
        let most = match self.agreed.has_key_messages() {
            true => self.config.protection.handshake_timeout.as_millis() / PROOF_INTERVAL.as_millis(),
            false => 0,
        };
        u64::from(self.handshake.init_retransmits) <= most.max(MAX_PROOFS.into())
    }

    /// Returns whether a host without the keys may have opened this association in the name of the peer.
    pub(crate) fn is_unproven(&self) -> bool {
        self.ends.accepted && self.awaits_proof()
    }

    /// Returns whether an association from this cookie, of another handshake, takes the place of this one. Its COOKIE ECHO comes from this
    /// address. A host that only lists an address from which this association was opened, or that has answered, ends nothing. If
    /// both ends only list it, the later one counts: otherwise a host that lists an address of the peer would keep the peer out.
    pub(crate) fn gives_way_to(&self, cookie: &Cookie, from: IpAddr) -> bool {
        let listed = cookie.peer_addrs.as_slice();
        let is_listed = |path: &Path| listed.iter().any(|addr| addr.ip() == path.remote().ip());
        let has_verified = || (self.sending.paths().iter()).any(|path| path.is_confirmed() && is_listed(path));
        let is_other = self.is_unproven() && cookie.local_tag != self.ends.local_tag;
        is_other && (self.sending.has_remote(from) || !has_verified())
    }

    /// Returns whether an opened packet that begins with this chunk may be processed. Before the COOKIE ACK it is what the peer sends first.
    pub(crate) fn expects(&self, first: ChunkType) -> bool {
        self.state != State::CookieEchoed
            || matches!(first, ChunkType::COOKIE_ACK | ChunkType::ABORT | ChunkType::ERROR)
    }

    /// Returns whether a packet without a DTLS chunk is processed: protected packets are required (draft, "Require Protected SCTP Packets"). The
    /// answers to a COOKIE ECHO that creates no association are the exception, because that peer has no keys.
    // [dtls:5.2-6]
    pub(crate) fn admits_unprotected(&mut self, packet: &PacketView<'_>) -> bool {
        let is_refusal = |chunk| matches!(chunk, Ok(Chunk::Abort { .. } | Chunk::Error { .. }));
        let is_admitted = match self.agreed.protection() {
            None => true,
            Some(protection) if !protection.is_in_force() => true,
            Some(_) if self.state == State::CookieEchoed => packet.chunks().all(is_refusal),
            Some(_) => false,
        };
        if !is_admitted && let Some(protection) = self.agreed.protection_mut() {
            protection.note_unprotected();
        }
        is_admitted
    }

    /// Returns whether a COOKIE ECHO, which is never encrypted, may be processed. An established association only sends the COOKIE ACK again, and
    /// only until the peer has shown that it has received one. Restarts are not supported (draft, "SCTP Restart Considerations").
    pub(crate) fn may_take_cookie(&self, cookie: &Cookie, from: IpAddr) -> bool {
        let Some(protection) = self.agreed.protection() else {
            return true;
        };
        match self.state {
            State::CookieWait | State::CookieEchoed => cookie.local_tag == self.ends.local_tag,
            _ if self.gives_way_to(cookie, from) => true,
            _ => {
                let is_own = self.ends.local_tag == cookie.local_tag && self.ends.peer_tag == cookie.peer_tag;
                is_own && !protection.is_confirmed()
            }
        }
    }

    /// Returns what is needed to answer the peer once more after the end of the association, once. A peer that has never shown the keys may be any
    /// host, and gets no answer.
    pub(crate) fn take_farewell(&mut self) -> Option<Farewell> {
        let protection = self.agreed.protection_mut()?.take_ended()?;
        let is_peer = |path: &&Path| !path.is_removed() && path.is_named_or_verified();
        let live = self.sending.paths().iter().filter(is_peer);
        protection.is_confirmed().then(|| Farewell {
            remotes: live.map(Path::remote).collect(),
            local_tag: self.ends.local_tag,
            peer_tag: self.ends.peer_tag,
            ports: (self.ends.local_port, self.ends.peer_port),
            protection,
        })
    }
}
