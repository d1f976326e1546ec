//! Failures of a transfer, and their exit codes.

use whimbrel::{AssociationError, BindError, CloseReason, ConnectError};

use super::frame::printable;
use crate::output::INTERRUPTED;

/// Printed in the help of both commands.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    the file arrived with the right SHA-256 digest; or recv without --once was ended by Ctrl-C between \
files
  1    a file could not be read or written, or the other end refused it; or output was lost because \
standard output was not read
  2    wrong use of this command
  3    refused: no receiver listens at the address
  4    unreachable: the network has no route
  5    timed out: the other end does not answer
  6    aborted by the other end
  7    not trusted: the other end by this one, or this one by the other end
  130  interrupted (Ctrl-C)";

/// Exit code if one end does not trust the other.
pub(crate) const NOT_TRUSTED: u8 = 7;

/// Printed in the help of both commands.
pub(crate) const SECURITY: &str = "\
Security:
  All packets after the handshake are encrypted (experimental). Each end has an identity and prints its fingerprint; --peer says which \
other end is trusted. Ends with the same identity file trust each other.
  With --insecure, anyone who can reach the receiver can write files into its folder, and anyone on \
the path can read files and their names and change the data; the digest protects only against errors. See \
SECURITY.md.
";

/// A failed transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    /// A failure with files, at this end or reported by the other one.
    pub(crate) fn file(message: impl Into<String>) -> Self {
        Failure {
            code: 1,
            message: message.into(),
        }
    }

    /// A failure because of wrong arguments.
    pub(crate) fn wrong_use(message: impl Into<String>) -> Self {
        Failure {
            code: 2,
            message: message.into(),
        }
    }

    /// A failure because the other end does not answer.
    pub(crate) fn timed_out(message: impl Into<String>) -> Self {
        Failure {
            code: 5,
            message: message.into(),
        }
    }

    /// A failure because of Ctrl-C.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Failure {
            code: INTERRUPTED,
            message: message.into(),
        }
    }

    /// Returns whether Ctrl-C at one of the ends was the cause.
    pub(crate) fn is_interrupt(&self) -> bool {
        self.code == INTERRUPTED
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        let code = if matches!(error, BindError::NoRoute { .. }) {
            4
        } else {
            1
        };
        Failure {
            code,
            message: error.to_string(),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match &error {
            ConnectError::Refused(_) => 3,
            ConnectError::Unreachable(_) => 4,
            ConnectError::TimedOut(_) => 5,
            ConnectError::Closed(error) => code_of(error),
            _ => 1,
        };
        Failure {
            code,
            message: printable(&error.to_string()),
        }
    }
}

impl From<AssociationError> for Failure {
    fn from(error: AssociationError) -> Self {
        Failure {
            code: code_of(&error),
            message: printable(&error.to_string()),
        }
    }
}

fn code_of(error: &AssociationError) -> u8 {
    match error {
        AssociationError::Closed(CloseReason::AbortedByPeer { .. } | CloseReason::PeerRestarted) => 6,
        AssociationError::Closed(CloseReason::NotAuthenticated(_)) => NOT_TRUSTED,
        AssociationError::Closed(CloseReason::Refused { .. } | CloseReason::KeyRequired) => 3,
        AssociationError::Closed(
            CloseReason::HandshakeTimeout
            | CloseReason::PeerUnreachable
            | CloseReason::DataUnanswered
            | CloseReason::ShutdownTimeout,
        ) => 5,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_code() {
        let aborted = CloseReason::AbortedByPeer {
            cause: Some(12),
            reason: "\x1b[1mdisk full".into(),
        };
        let failure = Failure::from(AssociationError::Closed(aborted));
        assert_eq!(failure.code, 6);
        assert!(
            failure.message.contains("disk full") && !failure.message.contains('\x1b'),
            "{}",
            failure.message
        );
        assert_eq!(
            Failure::from(AssociationError::Closed(CloseReason::PeerUnreachable)).code,
            5
        );
        assert_eq!(Failure::from(ConnectError::Refused("x".into())).code, 3);
        assert_eq!(
            Failure::from(ConnectError::TimedOut(CloseReason::HandshakeTimeout)).code,
            5
        );
    }
}
