//! Both ends together.

use std::time::{Duration, Instant};

use str0m::channel::{ChannelConfig, Reliability};

use crate::end::End;
use crate::peer::{Lack, Peer, Program};

/// Time limit of each step. A machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// Which end does something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Ours,
    Theirs,
}

pub(crate) struct Pair {
    /// Our end is to be the client of DTLS.
    is_client: bool,
    pub(crate) ours: End,
    pub(crate) theirs: Peer,
}

/// A reliable, ordered channel.
pub(crate) fn plain(label: &str) -> ChannelConfig {
    ChannelConfig {
        label: label.to_owned(),
        ..ChannelConfig::default()
    }
}

/// The words of a channel's settings: protocol, order, reliability.
pub(crate) fn settings(config: &ChannelConfig) -> String {
    let protocol = Some(&*config.protocol).filter(|text| !text.is_empty()).unwrap_or("-");
    let ordered = if config.ordered { "ordered" } else { "unordered" };
    let reliability = match config.reliability {
        Reliability::Reliable => "reliable".to_owned(),
        Reliability::MaxPacketLifetime { lifetime } => format!("lifetime:{lifetime}"),
        Reliability::MaxRetransmits { retransmits } => format!("rexmits:{retransmits}"),
    };
    format!("{protocol} {ordered} {reliability}")
}

/// The content of a message: of a text letters, of other messages the number and bytes that depend on it. The peers have the same rule.
pub(crate) fn content(binary: bool, number: u32, len: usize) -> Vec<u8> {
    let letter = |at: usize| b'a' + ((at * 7 + number as usize) % 26) as u8;
    let byte = |at: usize| (at * 7 + number as usize) as u8;
    if !binary {
        return (0..len).map(letter).collect();
    }
    let mut data: Vec<u8> = (0..len).map(byte).collect();
    if let Some(begin) = data.first_chunk_mut() {
        *begin = number.to_be_bytes();
    }
    data
}

impl Pair {
    /// Connects with a channel "first", which the end that offers opens.
    pub(crate) fn connected(program: &Program, offers: Side) -> Self {
        let mut pair = Pair {
            is_client: program.lacks(Lack::Roles),
            ours: End::new(),
            theirs: Peer::start(program),
        };
        match offers {
            Side::Ours => {
                let offer = pair.ours.offer(plain("first"));
                pair.theirs_answer(&offer);
            }
            Side::Theirs => {
                pair.theirs.command("open first - ordered reliable");
                pair.theirs_offer();
            }
        }
        pair.until("the first channel is open", |pair| {
            pair.ours.is_open("first") && pair.theirs.channel("first").opened.is_some()
        });
        assert!(pair.ours.is_connected);
        pair
    }

    /// Lets the peer answer an offer of ours, and accepts the answer.
    pub(crate) fn theirs_answer(&mut self, offer: &str) {
        let offer = if self.is_client {
            offer.replace("a=setup:actpass", "a=setup:active")
        } else {
            offer.to_owned()
        };
        self.theirs.describe("answer", &offer);
        self.until("the peer answers", |pair| pair.theirs.description.is_some());
        let answer = self.theirs.description.take().unwrap();
        self.ours.accept(&answer);
    }

    /// Lets the peer offer, and answers.
    pub(crate) fn theirs_offer(&mut self) {
        self.theirs.description = None;
        self.theirs.command("offer");
        self.until("the peer offers", |pair| pair.theirs.description.is_some());
        let mut offer = self.theirs.description.take().unwrap();
        if self.is_client {
            offer = offer.replace("a=setup:actpass", "a=setup:passive");
        }
        let answer = self.ours.answer(&offer);
        self.theirs.describe("accept", &answer);
        self.until("the peer accepts the answer", |pair| pair.theirs.is_accepted);
    }

    /// Opens a channel, and waits until both ends have it.
    pub(crate) fn open(&mut self, side: Side, config: ChannelConfig) {
        self.begin_to_open(side, config.clone());
        self.await_open(&config);
    }

    pub(crate) fn begin_to_open(&mut self, side: Side, config: ChannelConfig) {
        self.theirs.channel(&config.label).opened = None;
        match side {
            Side::Ours => self.ours.open(config),
            Side::Theirs => {
                let line = format!("open {} {}", config.label, settings(&config));
                self.theirs.command(&line);
            }
        }
    }

    /// Waits until both ends have it open, and compares its settings.
    pub(crate) fn await_open(&mut self, config: &ChannelConfig) {
        let label = &config.label;
        self.until(&format!("{label:?} is open"), |pair| {
            pair.ours.is_open(label) && pair.theirs.channel(label).opened.is_some()
        });
        let ChannelConfig {
            protocol,
            ordered,
            reliability,
            ..
        } = config.clone();
        assert_eq!(self.ours.config(label), (label.clone(), protocol, ordered, reliability));
        assert_eq!(self.theirs.channel(label).opened, Some(settings(config)), "{label:?}");
    }

    /// Closes a channel, and waits until both ends have closed it.
    pub(crate) fn close(&mut self, side: Side, label: &str) {
        self.begin_to_close(side, label);
        self.await_closed(label);
    }

    pub(crate) fn begin_to_close(&mut self, side: Side, label: &str) {
        match side {
            Side::Ours => self.ours.close(label),
            Side::Theirs => self.theirs.command(&format!("close {label}")),
        }
    }

    pub(crate) fn await_closed(&mut self, label: &str) {
        self.until(&format!("{label:?} is closed"), |pair| {
            let is_closed = pair.ours.channel(label).is_some_and(|channel| channel.is_closed);
            is_closed && pair.theirs.channel(label).is_closed
        });
    }

    /// Sends a message, as soon as it has room.
    pub(crate) fn send(&mut self, label: &str, binary: bool, data: &[u8]) {
        self.until("the message has room", |pair| pair.ours.send(label, binary, data));
    }

    /// Waits for the next message.
    #[track_caller]
    pub(crate) fn expect(&mut self, label: &str, binary: bool, data: &[u8]) {
        let what = format!("a message of {} bytes comes over {label:?}", data.len());
        self.until(&what, |pair| {
            pair.ours
                .channel(label)
                .is_some_and(|channel| !channel.messages.is_empty())
        });
        let (is_binary, got) = self.ours.channel(label).unwrap().messages.pop_front().unwrap();
        assert_eq!((is_binary, got.len()), (binary, data.len()), "{label:?}");
        assert!(got == data, "another content of {} bytes over {label:?}", data.len());
    }

    /// Sends a message and waits for its echo.
    #[track_caller]
    pub(crate) fn echo(&mut self, label: &str, binary: bool, data: &[u8]) {
        self.send(label, binary, data);
        self.expect(label, binary, data);
    }

    /// Lets the peer count what has come over a channel: how many messages, and whether their numbers increased.
    pub(crate) fn count(&mut self, label: &str) -> (usize, bool) {
        self.theirs.channel(label).count = None;
        self.theirs.command(&format!("count {label}"));
        self.until("the peer counts", |pair| pair.theirs.channel(label).count.is_some());
        self.theirs.channel(label).count.unwrap()
    }

    /// Loses everything while this is done, and for a time after it.
    pub(crate) fn interrupt(&mut self, time: Duration, during: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.ours.loss.per_mille, 1000);
        during(self);
        let start = Instant::now();
        self.until("the interruption ends", |_| start.elapsed() > time);
        self.ours.loss.per_mille = before;
    }

    /// Runs both ends until something is so.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
            self.ours.run();
            self.theirs.run();
        }
    }
}
