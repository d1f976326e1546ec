//! Datagrams without acknowledgements: cross traffic.

use whimbrel_control::Time;
use whimbrel_proto::Ecn;

use super::sink::Delivery;
use super::{Alarm, Context, Source};
use crate::ids::AgentId;
use crate::packet::{Form, Oversize, PacketId, UDP_HEADER};

/// Sends the messages of its source as they are created.
#[derive(Debug)]
pub(crate) struct UdpSender {
    pub(crate) agent: AgentId,
    pub(crate) source: Source,
    pub(crate) alarm: Alarm,
}

/// Counts received datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UdpReceiver;

impl UdpSender {
    /// Sets the first alarm.
    pub(crate) fn begin(&mut self, context: &mut Context<'_>) {
        self.alarm
            .arm(&mut context.network.queue, self.agent, self.source.next_due());
    }

    /// Sends due messages, and sets the alarm for the next one.
    pub(crate) fn wake(&mut self, context: &mut Context<'_>, seq: u64) {
        if !self.alarm.ring(seq) {
            return;
        }
        while self.source.next_due().is_some_and(|due| due <= context.now) {
            let len = self.source.message_len();
            let created = self.source.advance(context.now);
            context.flow.sink.sent_datagram(created, context.network.window);
            self.send(context, created, len);
        }
        self.alarm
            .arm(&mut context.network.queue, self.agent, self.source.next_due());
    }

    /// Sends a datagram of `len` bytes.
    fn send(&mut self, context: &mut Context<'_>, created: Time, len: u32) {
        let id = context.network.slab.reserve();
        context.network.slab.body_mut(id).form = Form::Datagram;
        let route = context.flow.routes.forward[0];
        context
            .flow
            .address_packet(context.network, context.now, id, self.agent, route, len + UDP_HEADER);
        let packet = context.network.slab.get_mut(id);
        packet.ecn = Ecn::NotEct;
        packet.oversize = Oversize::Fragment;
        packet.sent = created;
        context.network.send(context.now, id, context.observer);
    }
}

impl UdpReceiver {
    /// Handles a received datagram: it carries its number and the time of its creation.
    pub(crate) fn receive(self, context: &mut Context<'_>, id: PacketId) {
        let packet = *context.network.slab.get(id);
        context.network.slab.release(id);
        let len = u64::from(packet.size - UDP_HEADER - crate::packet::IP_HEADER);
        let window = context.window();
        let delivery = Delivery {
            stream: 0,
            unordered: true,
            number: packet.number,
            len,
            end: true,
        };
        context
            .flow
            .sink
            .deliver_datagram(context.now, window, delivery, packet.sent, packet.is_copy);
    }
}
