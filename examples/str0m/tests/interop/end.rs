//! Our end: str0m with a UDP socket.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use str0m::change::{SdpAnswer, SdpOffer, SdpPendingOffer};
use str0m::channel::{ChannelConfig, ChannelId, Reliability};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};

/// Length of the longest message of either end. All peers accept it.
pub(crate) const MAX_MESSAGE: usize = 256 * 1024;
/// What waits for transmission at once.
const MAX_QUEUED: usize = 2 * 1024 * 1024;
/// The longest wait for a datagram. The peer's lines are read after it.
const WAIT: Duration = Duration::from_millis(2);

/// A channel.
#[derive(Default)]
pub(crate) struct Channel {
    pub(crate) is_open: bool,
    pub(crate) is_closed: bool,
    /// Messages that have come: binary or not, and the content.
    pub(crate) messages: VecDeque<(bool, Vec<u8>)>,
}

pub(crate) struct End {
    rtc: Rtc,
    socket: UdpSocket,
    place: SocketAddr,
    datagram: Vec<u8>,
    pending: Option<SdpPendingOffer>,
    channels: HashMap<ChannelId, Channel>,
    /// The newest channel of each label.
    labels: HashMap<String, ChannelId>,
    pub(crate) is_connected: bool,
    /// The peer has ended the connection.
    pub(crate) is_closed: bool,
    pub(crate) loss: Loss,
}

impl End {
    pub(crate) fn new() -> Self {
        str0m::crypto::from_feature_flags().install_process_default();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        let place = socket.local_addr().unwrap();
        let mut rtc = Rtc::builder()
            .clear_codecs()
            .set_sctp_max_buffered_amount(MAX_QUEUED)
            .set_sctp_max_message_size(MAX_MESSAGE as u32)
            .build(Instant::now());
        rtc.add_local_candidate(Candidate::host(place, "udp").unwrap());
        End {
            rtc,
            socket,
            place,
            datagram: vec![0; 65_535],
            pending: None,
            channels: HashMap::new(),
            labels: HashMap::new(),
            is_connected: false,
            is_closed: false,
            loss: Loss::default(),
        }
    }

    /// Offers a connection with a first channel, without which there would be no SCTP.
    pub(crate) fn offer(&mut self, config: ChannelConfig) -> String {
        let label = config.label.clone();
        let mut changes = self.rtc.sdp_api();
        let id = changes.add_channel_with_config(config);
        let (offer, pending) = changes.apply().expect("a first channel needs an offer");
        self.insert(id, label);
        self.pending = Some(pending);
        offer.to_sdp_string()
    }

    /// Offers new ICE credentials for the connection that exists.
    pub(crate) fn offer_again(&mut self) -> String {
        let mut changes = self.rtc.sdp_api();
        changes.ice_restart(true);
        let (offer, pending) = changes.apply().expect("a restart of ICE needs an offer");
        self.pending = Some(pending);
        offer.to_sdp_string()
    }

    pub(crate) fn answer(&mut self, offer: &str) -> String {
        let offer = SdpOffer::from_sdp_string(offer).unwrap();
        self.rtc.sdp_api().accept_offer(offer).unwrap().to_sdp_string()
    }

    pub(crate) fn accept(&mut self, answer: &str) {
        let answer = SdpAnswer::from_sdp_string(answer).unwrap();
        let pending = self.pending.take().expect("an offer was made");
        self.rtc.sdp_api().accept_answer(pending, answer).unwrap();
    }

    /// Opens a channel on the connection that exists.
    pub(crate) fn open(&mut self, config: ChannelConfig) {
        let label = config.label.clone();
        let mut changes = self.rtc.sdp_api();
        let id = changes.add_channel_with_config(config);
        assert!(changes.apply().is_none(), "a further channel needs no offer");
        self.insert(id, label);
    }

    fn insert(&mut self, id: ChannelId, label: String) {
        self.labels.insert(label, id);
        self.channels.entry(id).or_default();
    }

    pub(crate) fn close(&mut self, label: &str) {
        let id = self.labels[label];
        self.rtc.direct_api().close_data_channel(id);
    }

    /// Ends the connection.
    pub(crate) fn end(&mut self) {
        self.rtc.close().unwrap();
    }

    /// The newest channel with this label.
    pub(crate) fn channel(&mut self, label: &str) -> Option<&mut Channel> {
        self.channels.get_mut(self.labels.get(label)?)
    }

    pub(crate) fn is_open(&mut self, label: &str) -> bool {
        self.channel(label)
            .is_some_and(|channel| channel.is_open && !channel.is_closed)
    }

    /// The settings of an open channel, as its label, protocol, order and reliability.
    pub(crate) fn config(&mut self, label: &str) -> (String, String, bool, Reliability) {
        let channel = self.rtc.channel(self.labels[label]).expect("it is open");
        let config = channel.config().expect("an open channel has it").clone();
        (config.label, config.protocol, config.ordered, config.reliability)
    }

    pub(crate) fn stream(&mut self, label: &str) -> u16 {
        let id = self.labels[label];
        self.rtc.direct_api().sctp_stream_id_by_channel_id(id).unwrap()
    }

    /// Returns whether the message had room.
    pub(crate) fn send(&mut self, label: &str, binary: bool, data: &[u8]) -> bool {
        let id = self.labels[label];
        let mut channel = self.rtc.channel(id).unwrap_or_else(|| panic!("{label:?} is not open"));
        channel.write(binary, data).unwrap()
    }

    /// Sends what is due, and waits a moment for a datagram.
    pub(crate) fn run(&mut self) {
        loop {
            match self.rtc.poll_output().unwrap() {
                Output::Transmit(packet) => {
                    if !self.loss.takes() {
                        // The peer may have closed its socket: then it is a loss.
                        let _ = self.socket.send_to(&packet.contents, packet.destination);
                    }
                }
                Output::Event(event) => self.on(event),
                Output::Timeout(until) if until <= Instant::now() => {
                    self.rtc.handle_input(Input::Timeout(Instant::now())).unwrap();
                }
                Output::Timeout(_) => break,
            }
        }
        let Ok((len, source)) = self.socket.recv_from(&mut self.datagram) else {
            self.rtc.handle_input(Input::Timeout(Instant::now())).unwrap();
            return;
        };
        if self.loss.takes() {
            return;
        }
        if let Ok(received) = Receive::new(Protocol::Udp, source, self.place, &self.datagram[..len]) {
            let input = Input::Receive(Instant::now(), received);
            if self.rtc.accepts(&input) {
                self.rtc.handle_input(input).unwrap();
            }
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Connected => self.is_connected = true,
            Event::Closed => self.is_closed = true,
            Event::ChannelOpen(id, label) => {
                self.insert(id, label);
                let channel = self.channels.get_mut(&id).expect("it was inserted");
                assert!(!channel.is_open, "it opens once");
                channel.is_open = true;
            }
            Event::ChannelClose(id) => {
                if let Some(channel) = self.channels.get_mut(&id) {
                    channel.is_closed = true;
                }
            }
            Event::ChannelData(data) => {
                let channel = self.channels.get_mut(&data.id).expect("messages come after the event");
                assert!(
                    channel.is_open && !channel.is_closed,
                    "a message of a channel that is not open"
                );
                channel.messages.push_back((data.binary, data.data));
            }
            _ => {}
        }
    }
}

/// Takes datagrams away, in both directions.
#[derive(Default)]
pub(crate) struct Loss {
    /// Of 1000 datagrams.
    pub(crate) per_mille: u64,
    /// How many it has taken.
    pub(crate) taken: u64,
    state: u64,
}

impl Loss {
    fn takes(&mut self) -> bool {
        if self.per_mille == 0 {
            return false;
        }
        // A congruential generator of 64 bits (Knuth).
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let takes = (self.state >> 33) % 1000 < self.per_mille;
        self.taken += u64::from(takes);
        takes
    }
}
