//! Measurements over associations: `whimbrel perf`, `ping` and `echo`.

pub(crate) mod client;
pub(crate) mod exchange;
pub(crate) mod plan;
pub(crate) mod protocol;
pub(crate) mod report;
pub(crate) mod sample;
pub(crate) mod server;

/// Printed in the help of the commands.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done; a server was ended by Ctrl-C
  1    the measurement failed, or the other end refused it
  2    wrong use of this command
  3    refused: nothing listens at the address
  4    unreachable: the network has no route
  5    timed out: the other end does not answer
  6    aborted by the other end
  7    not trusted: the other end by this one, or this one by the other end
  130  interrupted (Ctrl-C); the results until then are printed";

/// Printed in the help of the commands.
pub(crate) const SECURITY: &str = "\
Security:
  All packets after the handshake are encrypted (experimental), and the server lets in only clients that it trusts: see --peer. With \
--any-client or --insecure, anyone who can reach the server can make it send data as fast as the path allows, for 1 h \
at most (`perf --server --max-time`). See SECURITY.md.
";
