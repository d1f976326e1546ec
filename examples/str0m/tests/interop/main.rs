//! str0m on Whimbrel and other implementations of WebRTC: data channels through ICE and DTLS, over UDP on loopback.
//!
//! The peers are the programs in `peers/`: they do what lines on their standard input say. The cases are in [`cases`], and each peer has
//! all of them. A peer that this machine cannot build or fetch is reported as not run.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod cases;
mod end;
mod pair;
mod peer;

/// Makes the tests of a peer of the cases. `$command` returns how it is started, or why it cannot be.
macro_rules! tests {
    ($command:path: $($case:ident)*) => {$(
        #[test]
        fn $case() {
            $crate::cases::$case(&whimbrel_testkit::needs!($command()));
        }
    )*};
}

mod aiortc;
mod pion;
mod werift;
