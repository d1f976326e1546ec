//! A received SACK: whether it may be applied, and what came with it. `send/acknowledge.rs` applies it (RFC 9260 §6.2.1).

use whimbrel_wire::{DATA_HEADER_LEN, Sack, TIMESTAMP_LEN, Tsn};

use super::{Association, State};
use crate::PathId;
use crate::context::Context;
use crate::error::Discard;
use crate::event::CloseReason;
use crate::send::Echo;
use crate::send::{Extent, Taken};

impl Association {
    /// Processes a SACK chunk. Other forms of SACKs (`reports.rs`) are converted, and join at `apply_sack`.
    // [9260:6-5, 6-7]
    pub(super) fn on_sack(&mut self, ctx: &mut Context<'_>, sack: &Sack<'_>, from: PathId) -> Result<(), Discard> {
        let extent = self.extent_of(sack.gaps.len() + sack.duplicates.len());
        self.apply_sack(ctx, sack, from, extent)
    }

    /// Returns what a SACK with this number of entries says about TSNs above its last block. More blocks would have fitted if it is smaller than
    /// the largest packet.
    pub(super) fn extent_of(&self, entries: usize) -> Extent {
        let echoes = self.agreed.stamping.as_ref().map_or(0, |stamping| stamping.returned());
        if 4 * (entries + 1) + TIMESTAMP_LEN * echoes <= self.sending.largest_chunk() - DATA_HEADER_LEN {
            Extent::Roomy
        } else {
            Extent::Cut
        }
    }

    /// Checks the state, takes what the SACK returns besides acknowledgements, and applies it.
    pub(super) fn apply_sack(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        from: PathId,
        extent: Extent,
    ) -> Result<(), Discard> {
        if !self.state.may_send_data() {
            return Err(Discard::Unexpected);
        }
        let reported = Some((sack.a_rwnd, from));
        let taken = if self.agreed.stamping.is_some() || self.agreed.eci.in_use {
            let mut echo = Echo {
                path: Some(from),
                eci: self.agreed.eci.in_use.then_some(sack.congestion_indicated),
                ..Echo::NONE
            };
            match self.agreed.stamping.as_deref_mut() {
                Some(stamping) if stamping.repeats() => {
                    (echo.stamps, echo.overtaken) = stamping.take_all_returned();
                    echo.departures = stamping.echoes();
                }
                Some(stamping) => echo.stamps = stamping.take_returned(ctx.now),
                None => {}
            }
            self.sending.on_acknowledgement(ctx, sack, extent, reported, &echo)
        } else {
            self.sending
                .on_acknowledgement(ctx, sack, extent, reported, &Echo::NONE)
        }?;
        self.after_acknowledgement(ctx, taken)
    }

    /// Processes a SACK that another one overtook, extended by the caller to report what is known and what it adds. Its
    /// window is outdated and is not used.
    pub(super) fn apply_overtaken(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        from: PathId,
    ) -> Result<(), Discard> {
        let sack = Sack {
            a_rwnd: self.sending.advertised_window(),
            ..*sack
        };
        self.apply_sack(ctx, &sack, from, Extent::Whole)
    }

    /// Processes the cumulative TSN ack of a SHUTDOWN (RFC 9260 §9.2), which does not report gaps or a window.
    pub(super) fn on_cumulative_ack(&mut self, ctx: &mut Context<'_>, tsn: Tsn) -> Result<(), Discard> {
        let sack = Sack {
            cumulative_tsn_ack: tsn,
            a_rwnd: 0,
            gaps: whimbrel_wire::GapBlocks::from_wire_bytes(&[]),
            duplicates: whimbrel_wire::DuplicateTsns::from_wire_bytes(&[]),
            congestion_indicated: false,
            packets: 0,
        };
        let taken = self
            .sending
            .on_acknowledgement(ctx, &sack, Extent::Cut, None, &Echo::NONE)?;
        self.after_acknowledgement(ctx, taken)
    }

    /// Applies what an acknowledgement has brought about.
    fn after_acknowledgement(&mut self, ctx: &mut Context<'_>, taken: Taken) -> Result<(), Discard> {
        match taken {
            Taken::Applied(progress) => self.apply(ctx, progress),
            Taken::Impossible => return self.on_impossible_sack(ctx),
        }
        if self.state != State::Established {
            self.advance_shutdown(ctx);
        }
        Ok(())
    }

    /// Aborts the association, as a SACK acknowledges a TSN that has not been sent (RFC 9260 §12.4).
    // [9260:12.4-4]
    pub(super) fn on_impossible_sack(&mut self, ctx: &mut Context<'_>) -> Result<(), Discard> {
        self.abort_for_violation(ctx, "a TSN was acknowledged that was never sent");
        Err(Discard::Unexpected)
    }

    /// Aborts the association with the cause Protocol Violation (RFC 9260 §3.3.10.13), as the peer violated the
    /// protocol.
    pub(super) fn abort_for_violation(&mut self, ctx: &mut Context<'_>, what: &'static str) {
        let mut causes = Vec::new();
        whimbrel_wire::Cause::ProtocolViolation(what.as_bytes()).emit(&mut causes);
        self.abort_with(ctx, &causes, CloseReason::ProtocolViolation(what));
    }
}
