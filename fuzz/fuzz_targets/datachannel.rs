//! A peer sends any messages on any streams and resets them at any time: nothing panics, and in the end each stream in use is a channel.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whimbrel_control::{Rng, Span, Time};
use whimbrel_datachannel::{
    AssociationConfig, ChannelConfig, ChannelId, ChannelMessage, ChannelsConfig, DataChannels, DtlsRole, Outgoing,
    Reliability, Session,
};

const PPIDS: [u32; 8] = [50, 50, 50, 51, 53, 56, 57, 52];
const OPEN: &[u8] = b"\x03\x80\x01\x00\x00\x00\x00\x00\x00\x01\x00\x00x";

struct Net {
    now: Time,
    attacker: Session,
    channels: DataChannels,
}

impl Net {
    /// Packets arrive at once; the time goes on from timer to timer.
    fn run(&mut self, time: Span) {
        let end = self.now + time;
        loop {
            let mut is_idle = true;
            while let Some(packet) = self.attacker.poll_transmit(self.now) {
                self.channels.handle(self.now, &packet);
                is_idle = false;
            }
            while let Some(packet) = self.channels.poll_transmit(self.now) {
                self.attacker.handle(self.now, &packet);
                is_idle = false;
            }
            while self.attacker.poll_event().is_some() || self.channels.poll_event().is_some() {}
            if !is_idle {
                continue;
            }
            let timers = [self.attacker.next_timeout(), self.channels.next_timeout()];
            let Some(next) = timers.into_iter().flatten().min().filter(|&at| at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            self.attacker.handle_timeout(self.now);
            self.channels.handle_timeout(self.now);
        }
    }

    fn ids(&self) -> Vec<ChannelId> {
        self.channels.channels().collect()
    }
}

fn random(name: &str) -> Box<Rng> {
    Box::new(Rng::stream(1, name))
}

fuzz_target!(|bytes: &[u8]| {
    let attacker = Session::new(AssociationConfig::webrtc(), 5000, 5000, random("a")).expect("valid");
    let config = ChannelsConfig {
        max_peer_channels: 6,
        ..ChannelsConfig::default()
    };
    let channels = DataChannels::new(config, random("b")).expect("valid");
    let mut net = Net {
        now: Time::ZERO,
        attacker,
        channels,
    };
    net.channels.set_role(net.now, DtlsRole::Server);
    net.attacker.connect(net.now).expect("the first");
    net.run(Span::from_millis(100));
    let mut rest = bytes;
    while let [action, stream, next @ ..] = rest {
        let stream = u16::from(stream % 10);
        rest = next;
        match action % 8 {
            0..=3 => {
                let len = usize::from(action / 8).min(rest.len());
                let (content, left) = rest.split_at(len);
                rest = left;
                if net.attacker.is_resetting(stream) {
                    continue;
                }
                net.attacker.open(stream);
                let outgoing = Outgoing {
                    stream,
                    ppid: PPIDS[usize::from(action % 8)],
                    unordered: action % 4 == 3,
                    reliability: Reliability::Full,
                    content: if content.is_empty() { OPEN.to_vec() } else { content.to_vec() }.into(),
                };
                let _ = net.attacker.send(net.now, outgoing);
            }
            4 => net.attacker.reset(net.now, stream),
            5 => {
                let _ = net.channels.open(net.now, ChannelConfig::default());
            }
            6 => {
                for id in net.ids() {
                    let _ = net.channels.send(net.now, id, ChannelMessage::Text("x".to_owned()));
                    while net.channels.read(net.now, id).is_some() {}
                }
            }
            _ => {
                if let Some(&id) = net.ids().get(usize::from(stream)) {
                    net.channels.close(net.now, id);
                }
            }
        }
        if stream < 5 {
            net.run(Span::from_millis(1));
        }
    }
    // What waits is read, and everything is closed.
    for _ in 0..3 {
        net.run(Span::from_secs(5));
        for id in net.ids() {
            while net.channels.read(net.now, id).is_some() {}
        }
        let open: Vec<u16> = net.attacker.open_streams().collect();
        for stream in open {
            while net.attacker.read(net.now, stream).is_some() {}
        }
    }
    for id in net.ids() {
        net.channels.close(net.now, id);
    }
    net.run(Span::from_secs(5));
    assert_eq!(net.ids(), []);
    assert_eq!(net.channels.session().open_streams().count(), 0);
});
