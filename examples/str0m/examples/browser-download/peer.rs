//! A browser that is connected: str0m, a UDP socket, and what the channels are for.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use str0m::change::SdpOffer;
use str0m::channel::{ChannelData, ChannelId};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc, RtcError};

use crate::say;
use crate::slots::Slot;

/// Label of the channel for downloads. The page has the same words.
const DOWNLOAD: &str = "download";
/// Label of the channel with a message from time to time during a download: the page measures how late they are.
const TICKS: &str = "ticks";
/// Time between them.
const TICK: Duration = Duration::from_millis(100);
/// Begin of the labels of channels whose messages are echoed.
const CHAT: &str = "chat-";
/// What an echo begins with.
const ECHO: &[u8] = b"echo: ";
/// Length of a message of the download.
const MESSAGE: usize = 16 * 1024;
/// The download pauses when this many bytes wait for transmission or acknowledgement,
const HIGH: usize = 768 * 1024;
/// and continues when no more than this do.
const LOW: usize = 384 * 1024;
/// Bytes that all channels may queue. A browser that reads no echoes gets no more of them.
const MAX_QUEUED: usize = 1024 * 1024;
/// Length of a message that the browser may send.
const MAX_MESSAGE: u32 = 16 * 1024;
/// Channels of one browser.
const MAX_CHANNELS: usize = 16;
/// Time for ICE and DTLS.
const CONNECT_TIME: Duration = Duration::from_secs(15);
/// A browser that is there sends a STUN request each few seconds.
const SILENCE: Duration = Duration::from_secs(20);
/// The longest datagram.
const MAX_DATAGRAM: usize = 65_535;

/// Starts a peer in a thread of its own. Returns the answer to the offer.
pub(crate) fn start(number: u64, offer: &str, address: IpAddr, bytes: u64, slot: Slot) -> Result<String, String> {
    let offer = SdpOffer::from_sdp_string(offer).map_err(|error| format!("this is no offer: {error}"))?;
    let socket = UdpSocket::bind((address, 0)).map_err(|error| format!("no UDP socket: {error}"))?;
    let place = socket.local_addr().map_err(|error| format!("no UDP socket: {error}"))?;
    let mut rtc = Rtc::builder()
        // The browser finds the way: this end has one address, which the browser reaches.
        .set_ice_lite(true)
        .clear_codecs()
        .set_sctp_max_buffered_amount(MAX_QUEUED)
        .set_sctp_max_message_size(MAX_MESSAGE)
        .build(Instant::now());
    let candidate = Candidate::host(place, "udp").map_err(|error| format!("no candidate: {error}"))?;
    rtc.add_local_candidate(candidate);
    let answer = rtc.sdp_api().accept_offer(offer);
    let answer = answer.map_err(|error| format!("the offer cannot be accepted: {error}"))?;
    let mut peer = Peer {
        number,
        rtc,
        socket,
        bytes,
        channels: HashMap::new(),
        download: None,
        next_tick: Instant::now(),
        echoes: 0,
        dropped: 0,
        connected: false,
    };
    let run = move || {
        let started = Instant::now();
        let end = peer.run().unwrap_or_else(|error| format!("error: {error}"));
        peer.say_goodbye();
        let (took, echoes) = (started.elapsed().as_secs_f64(), peer.echoes);
        let dropped = match peer.dropped {
            0 => String::new(),
            dropped => format!(", {dropped} not"),
        };
        say!("peer {number}: closed after {took:.1} s, {echoes} messages echoed{dropped}: {end}");
        drop(slot);
    };
    let thread = thread::Builder::new().name(format!("peer {number}")).spawn(run);
    thread.map_err(|error| format!("no thread: {error}"))?;
    Ok(answer.to_sdp_string())
}

/// A browser.
struct Peer {
    number: u64,
    rtc: Rtc,
    socket: UdpSocket,
    /// Length of a download.
    bytes: u64,
    /// Labels of the open channels.
    channels: HashMap<ChannelId, String>,
    download: Option<Download>,
    /// When the next message of the channel for ticks is due.
    next_tick: Instant,
    echoes: u64,
    /// Messages that found the queue full.
    dropped: u64,
    connected: bool,
}

/// A download that goes on, or waits for the browser to confirm it.
struct Download {
    channel: ChannelId,
    sent: u64,
    started: Instant,
    /// The queue has room.
    has_room: bool,
    /// The most bytes that were queued.
    peak: usize,
}

impl Peer {
    /// Runs until the connection ends. Returns why it has.
    fn run(&mut self) -> Result<String, RtcError> {
        let started = Instant::now();
        let mut heard = started;
        let mut datagram = vec![0; MAX_DATAGRAM];
        loop {
            let timeout = match self.rtc.poll_output()? {
                Output::Transmit(packet) => {
                    // What is lost is sent again, or the browser is gone.
                    let _ = self.socket.send_to(&packet.contents, packet.destination);
                    continue;
                }
                Output::Event(event) => {
                    if let Some(end) = self.on(event)? {
                        return Ok(end);
                    }
                    continue;
                }
                Output::Timeout(timeout) => timeout,
            };
            if !self.rtc.is_alive() {
                return Ok("the connection has ended".to_owned());
            }
            if self.send_tick()? || self.send_download()? {
                continue;
            }
            let now = Instant::now();
            let timeout = if self.download.is_some() { timeout.min(self.next_tick) } else { timeout };
            let limit = if self.connected {
                heard + SILENCE
            } else {
                started + CONNECT_TIME
            };
            if now >= limit {
                let what = if self.connected {
                    "the browser is silent"
                } else {
                    "the browser did not connect"
                };
                return Ok(what.to_owned());
            }
            if self.receive(&mut datagram, timeout.min(limit), now)? {
                heard = Instant::now();
            }
        }
    }

    /// Ends the connection with the browser, if it is still there.
    fn say_goodbye(&mut self) {
        let _ = self.rtc.close();
        while let Ok(output) = self.rtc.poll_output() {
            match output {
                Output::Transmit(packet) => {
                    let _ = self.socket.send_to(&packet.contents, packet.destination);
                }
                Output::Event(_) => {}
                Output::Timeout(_) => break,
            }
        }
    }

    /// Waits for a datagram, until this time. Returns whether one of the browser has come.
    fn receive(&mut self, datagram: &mut [u8], until: Instant, now: Instant) -> Result<bool, RtcError> {
        let wait = until.saturating_duration_since(now);
        // No wait would be a wait without an end.
        let got = if wait.is_zero() {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            self.socket.set_read_timeout(Some(wait))?;
            self.socket.recv_from(datagram)
        };
        let now = Instant::now();
        let (len, source) = match got {
            Ok(got) => got,
            // Another kind of error reports a datagram sent before, or ends the wait early.
            Err(_) => {
                self.rtc.handle_input(Input::Timeout(now))?;
                return Ok(false);
            }
        };
        let destination = self.socket.local_addr()?;
        let Ok(received) = Receive::new(Protocol::Udp, source, destination, &datagram[..len]) else {
            // Anyone can send anything to this port.
            return Ok(false);
        };
        let input = Input::Receive(now, received);
        let is_ours = self.rtc.accepts(&input);
        if is_ours {
            self.rtc.handle_input(input)?;
        }
        Ok(is_ours)
    }

    /// Handles an event. Returns why the connection is to end, if it is.
    fn on(&mut self, event: Event) -> Result<Option<String>, RtcError> {
        let number = self.number;
        match event {
            Event::Connected => {
                self.connected = true;
                say!("peer {number}: connected");
            }
            Event::Closed => return Ok(Some("by the browser".to_owned())),
            Event::ChannelOpen(id, label) => {
                if self.channels.len() >= MAX_CHANNELS {
                    return Ok(Some("too many channels".to_owned()));
                }
                say!("peer {number}: channel {} opened", shown(&label));
                self.channels.insert(id, label);
            }
            Event::ChannelClose(id) => {
                if let Some(label) = self.channels.remove(&id) {
                    say!("peer {number}: channel {} closed", shown(&label));
                }
                if self.download.as_ref().is_some_and(|download| download.channel == id) {
                    self.download = None;
                }
            }
            Event::ChannelBufferedAmountLow(id) => {
                if let Some(download) = self.download.as_mut().filter(|download| download.channel == id) {
                    download.has_room = true;
                }
            }
            Event::ChannelData(data) => match self.channels.get(&data.id).map(String::as_str) {
                Some(DOWNLOAD) => self.on_download(&data)?,
                Some(label) if label.starts_with(CHAT) => self.echo(&data)?,
                // A channel that this program does not know has no use.
                _ => {}
            },
            _ => {}
        }
        Ok(None)
    }

    /// Sends a message of the chat back.
    fn echo(&mut self, data: &ChannelData) -> Result<(), RtcError> {
        let echo = [ECHO, &data.data].concat();
        let Some(mut channel) = self.rtc.channel(data.id) else {
            return Ok(());
        };
        if channel.write(data.binary, &echo)? {
            self.echoes += 1;
        } else {
            // The browser sends faster than it reads.
            self.dropped += 1;
        }
        Ok(())
    }

    /// Handles a message of the channel for downloads.
    fn on_download(&mut self, data: &ChannelData) -> Result<(), RtcError> {
        let text = std::str::from_utf8(&data.data).unwrap_or_default();
        match (&self.download, text) {
            (None, "get") => {
                let Some(mut channel) = self.rtc.channel(data.id) else {
                    return Ok(());
                };
                channel.set_buffered_amount_low_threshold(LOW);
                if !channel.write(false, format!("bytes {}", self.bytes).as_bytes())? {
                    return Ok(());
                }
                self.download = Some(Download {
                    channel: data.id,
                    sent: 0,
                    started: Instant::now(),
                    has_room: true,
                    peak: 0,
                });
                say!(
                    "peer {}: download of {:.0} MB started",
                    self.number,
                    self.bytes as f64 / 1e6
                );
            }
            (Some(download), "right" | "wrong") if download.sent == self.bytes => {
                let took = download.started.elapsed().as_secs_f64();
                let rate = self.bytes as f64 * 8.0 / 1e6 / took;
                let peak = download.peak / 1024;
                let number = self.number;
                say!(
                    "peer {number}: download done in {took:.2} s, {rate:.0} Mbit/s, the content is {text}, {peak} KiB queued at most"
                );
                self.download = None;
            }
            // Requests during a download, or nonsense.
            _ => {}
        }
        Ok(())
    }

    /// During a download, sends the time over the channel for ticks, if the browser has opened it and a message is due. Returns whether it has.
    fn send_tick(&mut self) -> Result<bool, RtcError> {
        let now = Instant::now();
        if self.download.is_none() || now < self.next_tick {
            return Ok(false);
        }
        self.next_tick = now + TICK;
        let ticks = self.channels.iter().find(|(_, label)| *label == TICKS);
        let Some(mut channel) = ticks.and_then(|(id, _)| self.rtc.channel(*id)) else {
            return Ok(false);
        };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        channel.write(false, time.as_micros().to_string().as_bytes())
    }

    /// Sends as much of the download as has room. Returns whether it has sent some.
    fn send_download(&mut self) -> Result<bool, RtcError> {
        let Some(download) = self.download.as_mut().filter(|download| download.has_room) else {
            return Ok(false);
        };
        let Some(mut channel) = self.rtc.channel(download.channel) else {
            return Ok(false);
        };
        let start = download.sent;
        while download.sent < self.bytes {
            let queued = channel.buffered_amount();
            download.peak = download.peak.max(queued);
            if queued + MESSAGE > HIGH {
                // The event of the threshold continues it.
                download.has_room = false;
                break;
            }
            let len = MESSAGE.min(usize::try_from(self.bytes - download.sent).unwrap_or(MESSAGE));
            if !channel.write(true, &content(download.sent, len))? {
                // Echoes fill the queue. It is tried again when something has come.
                break;
            }
            download.sent += len as u64;
        }
        Ok(download.sent > start)
    }
}

/// Returns a part of the download. The page computes the same bytes: each depends on its place, so none can be lost or moved unseen.
fn content(start: u64, len: usize) -> Vec<u8> {
    // The low 32 bits of the place are those that the page has.
    let byte = |place: u64| ((place as u32).wrapping_mul(0x9E37_79B1) >> 24) as u8;
    (start..).take(len).map(byte).collect()
}

/// A label for the terminal: the browser may have put anything into it.
fn shown(label: &str) -> String {
    let begin: String = label.chars().take(40).collect();
    format!("{begin:?}")
}
