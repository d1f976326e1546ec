//! A line of `events.jsonl`.

use std::borrow::Cow;

use serde::Deserialize;

/// A line of the file.
#[derive(Deserialize)]
pub(crate) struct Event<'e> {
    pub(crate) time: f64,
    #[serde(borrow)]
    pub(crate) name: Cow<'e, str>,
    #[serde(borrow, default)]
    pub(crate) flow: Cow<'e, str>,
    #[serde(borrow, default)]
    pub(crate) node: Cow<'e, str>,
    #[serde(borrow, default)]
    pub(crate) data: Data<'e>,
}

/// What an event says; which fields it has depends on its name.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Data<'e> {
    pub(crate) path: Option<u32>,
    pub(crate) tsn: Option<u32>,
    pub(crate) length: Option<u32>,
    pub(crate) retransmission: bool,
    #[serde(borrow)]
    pub(crate) trigger: Cow<'e, str>,
    #[serde(borrow)]
    pub(crate) verdict: Cow<'e, str>,
    pub(crate) congestion: bool,
    #[serde(borrow)]
    pub(crate) link: Cow<'e, str>,
    pub(crate) number: u32,
    pub(crate) forward: bool,
    pub(crate) sent: f64,
    pub(crate) data_chunks: u32,
    pub(crate) congestion_window_before: f64,
    pub(crate) congestion_window: f64,
    pub(crate) episode: u32,
    #[serde(borrow)]
    pub(crate) new: Cow<'e, str>,
    #[serde(borrow)]
    pub(crate) timer: Cow<'e, str>,
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'e, str>,
    #[serde(borrow)]
    pub(crate) from: Cow<'e, str>,
    #[serde(borrow)]
    pub(crate) to: Cow<'e, str>,
    pub(crate) duration: f64,
    pub(crate) retry: bool,
    #[serde(borrow)]
    pub(crate) destination: Cow<'e, str>,
    #[serde(borrow)]
    pub(crate) next_hop: Cow<'e, str>,
    pub(crate) ssthresh: Option<f64>,
    pub(crate) bytes_in_flight: f64,
    pub(crate) latest_rtt: Option<f64>,
    pub(crate) smoothed_rtt: f64,
    pub(crate) retransmission_timeout: f64,
    #[serde(borrow)]
    pub(crate) local: Cow<'e, str>,
    #[serde(borrow)]
    pub(crate) remote: Cow<'e, str>,
    pub(crate) unix_ms: f64,
}

/// A flow's end, by the numbers of flow and node in the words of all events.
pub(crate) type End = (usize, usize);

/// Nanoseconds of three years: no run is longer, and sums of times do not overflow.
const LATEST: f64 = 1e17;
/// Nanoseconds of a time in milliseconds.
pub(crate) fn nanos(ms: f64) -> i64 {
    (ms * 1e6).round().clamp(-LATEST, LATEST) as i64
}
