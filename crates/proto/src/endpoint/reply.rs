//! Packets that belong to no association: stateless replies, and the last packets of associations that have ended.

use std::collections::VecDeque;
use std::sync::Arc;

use whimbrel_wire::{Asconf, Causes, Chunk, CommonHeader, HeartbeatInfo, Init, PacketSink, Parameters, Tsn};

use crate::TransportAddr;
use crate::association::Signer;
use crate::protection::Sealing;

/// The only chunk of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ReplyChunk {
    InitAck {
        initiate_tag: u32,
        a_rwnd: u32,
        outbound_streams: u16,
        inbound_streams: u16,
        initial_tsn: Tsn,
        /// Addresses, cookie, unrecognized parameters.
        parameters: Box<[u8]>,
    },
    Abort {
        reflected: bool,
        causes: Box<[u8]>,
    },
    Error {
        causes: Box<[u8]>,
    },
    ShutdownComplete {
        reflected: bool,
    },
    /// Sent to a UDP port that is not known to be the peer's, as the two that follow.
    CookieAck,
    HeartbeatAck(Box<[u8]>),
    Heartbeat(Box<[u8]>),
    /// Sent to an address that does not belong to the association.
    AsconfAck {
        serial: u32,
        answer: Box<[u8]>,
    },
}

/// What protects a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Guard {
    Nothing,
    /// The peer requires authentication (RFC 4895).
    Signed(Arc<Signer>),
    /// The packet is encrypted (draft-ietf-tsvwg-sctp-dtls-chunk).
    Sealed(Sealing),
}

impl From<Option<Arc<Signer>>> for Guard {
    fn from(signer: Option<Arc<Signer>>) -> Self {
        signer.map_or(Guard::Nothing, Guard::Signed)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) local: TransportAddr,
    pub(crate) remote: TransportAddr,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) verification_tag: u32,
    pub(crate) chunk: ReplyChunk,
    pub(crate) guard: Guard,
}

impl Reply {
    /// Writes the packet and returns its length.
    // [9260:3.3.7-1, 3.3.7-2, 5.1-9, 5.1-10]
    // [9653:5.2-3]
    pub(crate) fn write(&self, sink: &mut dyn PacketSink) -> usize {
        sink.begin(CommonHeader {
            source_port: self.source_port,
            destination_port: self.destination_port,
            verification_tag: self.verification_tag,
        });
        match &self.guard {
            Guard::Nothing => {}
            Guard::Signed(signer) => signer.push(sink),
            Guard::Sealed(_) => sink.begin_sealed(),
        }
        self.chunk.push(sink);
        match &self.guard {
            Guard::Nothing => {}
            Guard::Signed(signer) => signer.seal(sink),
            Guard::Sealed(keys) => keys.clone().seal(sink),
        }
        sink.finish()
    }
}

impl ReplyChunk {
    fn push(&self, sink: &mut dyn PacketSink) {
        match self {
            ReplyChunk::InitAck {
                initiate_tag,
                a_rwnd,
                outbound_streams,
                inbound_streams,
                initial_tsn,
                parameters,
            } => sink.push(&Chunk::InitAck(Init {
                initiate_tag: *initiate_tag,
                a_rwnd: *a_rwnd,
                outbound_streams: *outbound_streams,
                inbound_streams: *inbound_streams,
                initial_tsn: *initial_tsn,
                parameters: Parameters::from_wire_bytes(parameters),
            })),
            ReplyChunk::Abort { reflected, causes } => {
                sink.push(&Chunk::Abort {
                    tag_reflected: *reflected,
                    causes: Causes::from_wire_bytes(causes),
                });
            }
            ReplyChunk::Error { causes } => sink.push(&Chunk::Error {
                causes: Causes::from_wire_bytes(causes),
            }),
            ReplyChunk::ShutdownComplete { reflected } => {
                sink.push(&Chunk::ShutdownComplete {
                    tag_reflected: *reflected,
                });
            }
            ReplyChunk::CookieAck => sink.push(&Chunk::CookieAck),
            ReplyChunk::HeartbeatAck(info) => sink.push(&Chunk::HeartbeatAck(HeartbeatInfo(info))),
            ReplyChunk::Heartbeat(info) => sink.push(&Chunk::Heartbeat(HeartbeatInfo(info))),
            ReplyChunk::AsconfAck { serial, answer } => sink.push(&Chunk::AsconfAck(Asconf {
                serial: *serial,
                parameters: Parameters::from_wire_bytes(answer),
            })),
        }
    }
}

/// Queue of replies. Its length is limited, so a flood of packets cannot exhaust memory.
#[derive(Debug)]
pub(crate) struct Replies {
    waiting: VecDeque<Reply>,
    limit: usize,
    dropped: u64,
}

impl Replies {
    pub(crate) fn new(limit: usize) -> Self {
        Replies {
            waiting: VecDeque::new(),
            limit,
            dropped: 0,
        }
    }

    pub(crate) fn push(&mut self, reply: Reply) {
        if self.waiting.len() < self.limit {
            if self.waiting.capacity() == 0 {
                // One reply at a time is usual.
                self.waiting.reserve_exact(1);
            }
            self.waiting.push_back(reply);
        } else {
            self.dropped += 1;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Removes the latest replies until at most `len` are left.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.waiting.truncate(len);
    }

    pub(crate) fn pop(&mut self) -> Option<Reply> {
        self.waiting.pop_front()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.limit
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}
