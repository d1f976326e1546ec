//! dcsctp, from the WebRTC project.

use std::any::Any;
use std::time::Duration;

use dcsctp::api::{DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime, StreamId};

use crate::measure::{PACKET, Pair, Stack, WINDOW};

pub(crate) struct Dcsctp;

struct Ends {
    a: Box<dyn DcSctpSocket>,
    b: Box<dyn DcSctpSocket>,
    now: Duration,
    packets: u64,
}

impl Stack for Dcsctp {
    fn name(&self) -> &'static str {
        "dcsctp"
    }

    fn connect(&self) -> Box<dyn Pair> {
        let options = Options {
            mtu: PACKET,
            max_receiver_window_buffer_size: WINDOW,
            max_send_buffer_size: WINDOW,
            per_stream_send_queue_limit: WINDOW,
            ..Options::default()
        };
        let mut ends = Ends {
            a: dcsctp::new_socket("a", &options),
            b: dcsctp::new_socket("b", &options),
            now: Duration::from_secs(1),
            packets: 0,
        };
        ends.a.connect();
        ends.exchange();
        assert!(ends.a.state() == SocketState::Connected && ends.b.state() == SocketState::Connected);
        Box::new(ends)
    }

    /// Its sockets are associations.
    fn endpoints(&self) -> Option<Box<dyn Any>> {
        None
    }
}

impl Ends {
    /// Carries packets until neither end has one to send.
    fn exchange(&mut self) {
        loop {
            let sent = carry(&mut *self.a, &mut *self.b) + carry(&mut *self.b, &mut *self.a);
            self.packets += sent;
            if sent == 0 {
                return;
            }
        }
    }
}

fn carry(from: &mut dyn DcSctpSocket, to: &mut dyn DcSctpSocket) -> u64 {
    let mut sent = 0;
    while let Some(event) = from.poll_event() {
        match event {
            SocketEvent::SendPacket(packet) => {
                to.handle_input(&packet);
                sent += 1;
            }
            SocketEvent::OnAborted(kind, text) | SocketEvent::OnError(kind, text) => panic!("{kind:?}: {text}"),
            _ => {}
        }
    }
    sent
}

impl Pair for Ends {
    fn transfer(&mut self, len: usize, count: usize) -> u64 {
        let before = self.packets;
        let (mut sent, mut received) = (0, 0);
        while received < count {
            while sent < count && self.a.buffered_amount(StreamId(0)) + len <= WINDOW {
                let message = Message::new(StreamId(0), PpId(0), vec![0x55; len]);
                self.a.send(message, &SendOptions::default()).expect("there is room");
                sent += 1;
            }
            self.exchange();
            let mut progress = false;
            while let Some(message) = self.b.get_next_message() {
                assert_eq!(message.payload.len(), len);
                received += 1;
                progress = true;
            }
            if !progress {
                // Nothing moves but timers: delayed acknowledgements, window updates.
                self.now += Duration::from_millis(10);
                let now = SocketTime::zero() + self.now;
                self.a.advance_time(now);
                self.b.advance_time(now);
            }
        }
        self.exchange();
        self.packets - before
    }
}
