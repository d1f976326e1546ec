//! Notifications in the layout of Linux (RFC 6458 §6).

use std::net::SocketAddr;

use whimbrel::{CloseReason, PathChange, SendFailure};

use crate::address;

/// Types of notifications, less `SCTP_SN_TYPE_BASE`: their places in `struct sctp_event_subscribe`.
pub(crate) const DATA_IO: u16 = 0;
pub(crate) const ASSOC_CHANGE: u16 = 1;
pub(crate) const PEER_ADDR_CHANGE: u16 = 2;
pub(crate) const SEND_FAILED: u16 = 3;
pub(crate) const SHUTDOWN: u16 = 5;
pub(crate) const SEND_FAILED_EVENT: u16 = 13;
/// Number of types.
pub(crate) const TYPES: usize = 14;

const BASE: u16 = 1 << 15;

/// States of `sctp_assoc_change`.
pub(crate) const COMM_UP: u16 = 0;
pub(crate) const COMM_LOST: u16 = 1;
pub(crate) const SHUTDOWN_COMP: u16 = 3;
pub(crate) const CANT_STR_ASSOC: u16 = 4;

fn begin(kind: u16, flags: u16, len: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len as usize);
    bytes.extend((BASE + kind).to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(len.to_ne_bytes());
    bytes
}

/// Returns `struct sctp_assoc_change`.
pub(crate) fn assoc_change(state: u16, error: u16, streams: (u16, u16), assoc: i32) -> Vec<u8> {
    let mut bytes = begin(ASSOC_CHANGE, 0, 20);
    for value in [state, error, streams.0, streams.1] {
        bytes.extend(value.to_ne_bytes());
    }
    bytes.extend(assoc.to_ne_bytes());
    bytes
}

/// Returns the code of the error cause that `sac_error` has.
pub(crate) fn cause(reason: &CloseReason) -> u16 {
    match reason {
        CloseReason::AbortedByPeer { cause, .. } | CloseReason::Refused { cause } => cause.unwrap_or(0),
        _ => 0,
    }
}

/// Returns `struct sctp_paddr_change`, `None` for changes that have none.
pub(crate) fn paddr_change(addr: SocketAddr, change: PathChange, assoc: i32) -> Option<Vec<u8>> {
    let state: i32 = match change {
        PathChange::Up => 0,
        PathChange::Down => 1,
        PathChange::Removed => 2,
        PathChange::Added => 3,
        PathChange::PrimaryChanged => 4,
        PathChange::Confirmed => 5,
        // Linux reports it only after SCTP_EXPOSE_POTENTIALLY_FAILED_STATE.
        _ => return None,
    };
    let mut bytes = begin(PEER_ADDR_CHANGE, 0, 148);
    bytes.extend(address::storage(addr));
    bytes.extend(state.to_ne_bytes());
    bytes.extend(0_i32.to_ne_bytes());
    bytes.extend(assoc.to_ne_bytes());
    Some(bytes)
}

/// Returns `struct sctp_shutdown_event`.
pub(crate) fn shutdown(assoc: i32) -> Vec<u8> {
    let mut bytes = begin(SHUTDOWN, 0, 12);
    bytes.extend(assoc.to_ne_bytes());
    bytes
}

/// Returns `struct sctp_send_failed`, without the data.
pub(crate) fn send_failed(failure: &SendFailure, assoc: i32) -> Vec<u8> {
    let mut bytes = begin(SEND_FAILED, u16::from(failure.sent), 48);
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(failure.stream.to_ne_bytes());
    bytes.extend([0; 6]);
    bytes.extend(failure.ppid.to_be_bytes());
    bytes.extend(failure.context.to_ne_bytes());
    bytes.extend([0; 12]);
    bytes.extend(assoc.to_ne_bytes());
    bytes.extend(assoc.to_ne_bytes());
    bytes
}

/// Returns `struct sctp_send_failed_event`, without the data.
pub(crate) fn send_failed_event(failure: &SendFailure, assoc: i32) -> Vec<u8> {
    let mut bytes = begin(SEND_FAILED_EVENT, u16::from(failure.sent), 32);
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(failure.stream.to_ne_bytes());
    bytes.extend([0; 2]);
    bytes.extend(failure.ppid.to_be_bytes());
    bytes.extend(failure.context.to_ne_bytes());
    bytes.extend(assoc.to_ne_bytes());
    bytes.extend(assoc.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_linux() {
        let len = |bytes: &[u8]| u32::from_ne_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let addr = "192.0.2.1:7".parse().unwrap();
        let failure = SendFailure {
            stream: 1,
            ppid: 0x0102_0304,
            context: 5,
            sent: true,
            cause: whimbrel::SendFailureCause::GivenUp,
        };
        let all = [
            assoc_change(COMM_UP, 0, (10, 10), 3),
            paddr_change(addr, PathChange::Confirmed, 3).unwrap(),
            shutdown(3),
            send_failed(&failure, 3),
            send_failed_event(&failure, 3),
        ];
        for bytes in &all {
            assert_eq!(bytes.len(), len(bytes));
        }
        assert_eq!(all.map(|bytes| bytes.len()), [20, 148, 12, 48, 32]);
    }
}
