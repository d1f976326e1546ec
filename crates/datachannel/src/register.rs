//! The channels of an association, by number and by stream, and what those of the peer take.

use std::collections::BTreeMap;

use crate::channel::{ChannelConfig, ChannelEnd, ChannelId, Flaw};

/// How far a channel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It has no stream, or the association is not established.
    Waiting,
    /// Its OPEN has been sent, and nothing has been received on it. Messages are sent in order (RFC 8832 §6).
    Opening,
    Open,
    /// Its stream is being reset, for this reason.
    Closing(ChannelEnd),
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) config: ChannelConfig,
    stream: Option<u16>,
    pub(crate) stage: Stage,
    by_peer: bool,
    /// Both ends know of it without DCEP.
    pub(crate) negotiated: bool,
    pub(crate) buffered_low: usize,
    /// A message of the user has been sent since its buffer was empty: the messages of DCEP are not the user's.
    pub(crate) has_sent: bool,
}

impl Channel {
    fn new(config: ChannelConfig, stream: Option<u16>) -> Self {
        Channel {
            config,
            stream,
            stage: Stage::Waiting,
            by_peer: false,
            negotiated: false,
            buffered_low: 0,
            has_sent: false,
        }
    }

    /// Returns its stream, if it has one.
    pub(crate) fn stream(&self) -> Option<u16> {
        self.stream
    }

    fn names_len(&self) -> usize {
        self.config.label.len() + self.config.protocol.len()
    }
}

/// All channels that have not ended.
#[derive(Debug)]
pub(crate) struct Register {
    channels: BTreeMap<ChannelId, Channel>,
    by_stream: BTreeMap<u16, ChannelId>,
    next_id: u64,
    /// Channels of the peer, and the bytes of their names.
    of_peer: (usize, usize),
    /// The most of both.
    limits: (usize, usize),
}

impl Register {
    /// Returns an empty register for at most this number of channels of the peer, with names of at most this number of bytes.
    pub(crate) fn new(max_peer_channels: usize, max_peer_names: usize) -> Self {
        Register {
            channels: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            next_id: 0,
            of_peer: (0, 0),
            limits: (max_peer_channels, max_peer_names),
        }
    }

    pub(crate) fn get(&self, channel: ChannelId) -> Option<&Channel> {
        self.channels.get(&channel)
    }

    pub(crate) fn get_mut(&mut self, channel: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(&channel)
    }

    /// Returns the channel of a stream.
    pub(crate) fn of_stream(&self, stream: u16) -> Option<ChannelId> {
        self.by_stream.get(&stream).copied()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.channels.keys().copied()
    }

    /// Returns the channels that have a stream.
    pub(crate) fn with_stream(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.by_stream.values().copied()
    }

    /// Adds a channel that this end opens.
    pub(crate) fn add(&mut self, config: ChannelConfig) -> ChannelId {
        self.insert(Channel::new(config, None))
    }

    /// Adds a channel on which both ends have agreed.
    pub(crate) fn add_negotiated(&mut self, config: ChannelConfig, stream: u16) -> ChannelId {
        self.insert(Channel {
            negotiated: true,
            ..Channel::new(config, Some(stream))
        })
    }

    /// Adds a channel that the peer opens. It is open at once.
    ///
    /// # Errors
    /// Returns an error if the channels of the peer, or their names, are more than accepted.
    pub(crate) fn add_of_peer(&mut self, config: ChannelConfig, stream: u16) -> Result<ChannelId, Flaw> {
        let channel = Channel {
            by_peer: true,
            stage: Stage::Open,
            ..Channel::new(config, Some(stream))
        };
        let (count, names) = (self.of_peer.0 + 1, self.of_peer.1 + channel.names_len());
        if count > self.limits.0 || names > self.limits.1 {
            return Err(Flaw::TooMany);
        }
        self.of_peer = (count, names);
        Ok(self.insert(channel))
    }

    fn insert(&mut self, channel: Channel) -> ChannelId {
        let id = ChannelId(self.next_id);
        self.next_id += 1;
        if let Some(stream) = channel.stream {
            self.by_stream.insert(stream, id);
        }
        self.channels.insert(id, channel);
        id
    }

    /// A channel that waited has its stream now.
    pub(crate) fn assign(&mut self, channel: ChannelId, stream: u16) {
        if let Some(known) = self.channels.get_mut(&channel) {
            known.stream = Some(stream);
            self.by_stream.insert(stream, channel);
        }
    }

    /// Removes a channel that has ended.
    pub(crate) fn remove(&mut self, channel: ChannelId) -> Option<Channel> {
        let known = self.channels.remove(&channel)?;
        if let Some(stream) = known.stream {
            self.by_stream.remove(&stream);
        }
        if known.by_peer {
            self.of_peer.0 -= 1;
            self.of_peer.1 -= known.names_len();
        }
        Some(known)
    }
}
