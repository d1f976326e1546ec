//! TCP: a sender, a receiver and the segments between them (RFC 9293, 5681, 6298, 7323).
//!
//! Segments are transmitted as structures. The sender keeps sent data on a scoreboard ([`scoreboard`]). The flavour defines how
//! losses are detected; a [`Controller`](whimbrel_control::Controller), the same as for SCTP, decides what they mean and how much
//! may be in flight. Data flows in one direction. The receiving application reads data as soon as it is in order, so the window
//! never closes.
//!
//! Not modelled: data on the SYN, urgent data, resets, persist timer and keep-alive.

mod receiver;
mod scoreboard;
mod sender;
#[cfg(test)]
mod testbed;

pub(crate) use self::receiver::{ReceiverSetup, TcpReceiver};
pub(crate) use self::sender::{SenderSetup, TcpSender};

use whimbrel_control::Time;
use whimbrel_proto::Ecn;

use super::Context;
use crate::ids::AgentId;
use crate::packet::Form;
use crate::segment::TcpSegment;

/// Port of every receiver. Senders use the ports above it.
const RECEIVER_PORT: u16 = 5000;
/// Number of ports for senders before they are reused.
const SENDER_PORTS: u32 = 60_000;

fn sender_port(agent: AgentId) -> u16 {
    RECEIVER_PORT + 1 + (agent.flow() % SENDER_PORTS) as u16
}

/// Returns the timestamp value of a time: microseconds, modulo 2^32 (RFC 7323 §5.4).
fn timestamp(now: Time) -> u32 {
    (now.as_nanos() / 1000) as u32
}

/// Returns the latest time up to `now` with this timestamp.
fn time_of(timestamp_value: u32, now: Time) -> Time {
    let micros = now.as_nanos() / 1000;
    let ago = u64::from((micros as u32).wrapping_sub(timestamp_value));
    Time::from_nanos(micros.saturating_sub(ago) * 1000)
}

/// Returns the window scale with which a buffer fits into 16 bits (RFC 7323 §2.3: at most 14).
fn window_scale(buffer: u32) -> u8 {
    (0..14)
        .find(|scale| buffer >> scale <= u32::from(u16::MAX))
        .unwrap_or(14)
}

/// Returns the signed distance from `from` to `to` modulo 2^32.
fn distance(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from) as i32)
}

/// Sends a segment, with the bytes of its payload if the flow carries a file.
fn send(context: &mut Context<'_>, agent: AgentId, segment: TcpSegment, content: &[u8], ecn: Ecn) {
    let id = context.network.slab.reserve();
    let body = context.network.slab.body_mut(id);
    body.form = Form::Tcp;
    body.tcp = segment;
    body.bytes.clear();
    body.bytes.extend_from_slice(content);
    let routes = &context.flow.routes;
    let route = if agent.is_sender() {
        routes.forward[0]
    } else {
        routes.reverse[0]
    };
    context
        .flow
        .address_packet(context.network, context.now, id, agent, route, segment.len());
    context.network.slab.get_mut(id).ecn = ecn;
    context.network.send(context.now, id, context.observer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_wrap_around_and_are_converted_back() {
        for micros in [7, u64::from(u32::MAX), (1 << 33) + 12] {
            let now = Time::from_nanos((micros + 1_000_000) * 1000 + 999);
            let sent = Time::from_nanos(micros * 1000 + 400);
            assert_eq!(time_of(timestamp(sent), now).as_nanos(), micros * 1000);
        }
        assert_eq!(distance(u32::MAX - 1, 2), 4);
        assert_eq!(distance(2, u32::MAX - 1), -4);
    }

    #[test]
    fn window_scales_are_minimal() {
        assert_eq!((window_scale(65_535), window_scale(65_536)), (0, 1));
        assert_eq!(window_scale(262_144), 3);
        assert_eq!(window_scale(1_073_725_440), 14);
    }
}
