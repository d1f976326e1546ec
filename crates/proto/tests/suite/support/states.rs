//! An endpoint brought into each state by forged packets.

use whimbrel_proto::{AssocId, AssociationConfig, Message, State};
use whimbrel_wire::{Chunk, ChunkType, Parameter, Tsn};

use super::{Fate, Host, Net, init, parameters};

impl Net {
    /// A in this state, of which B hears nothing any more; A's tag and first TSN. It has a message outstanding where it may.
    pub fn in_state(config: &AssociationConfig, state: State) -> (Net, AssocId, u32, u32) {
        let mut net = Net::new(1);
        net.knob = Box::new(|_| Fate::Drop);
        let id = net.connect(config, 1);
        net.drain(Host::A);
        let own = net.last(Host::A, ChunkType::INIT);
        let (tag, tsn) = (own.init().initiate_tag, own.init().initial_tsn.0);
        if state != State::CookieWait {
            let list = parameters(&[Parameter::StateCookie(b"biscuit")]);
            net.forge(Host::A, tag, &[Chunk::InitAck(init(9, &list))])
                .expect("taken");
        }
        if !matches!(state, State::CookieWait | State::CookieEchoed) {
            net.forge(Host::A, tag, &[Chunk::CookieAck]).expect("taken");
        }
        if matches!(state, State::ShutdownPending | State::ShutdownReceived) {
            net.send(Host::A, id, Message::zeros(0, 10));
        }
        let now = net.now;
        match state {
            State::ShutdownPending | State::ShutdownSent => net.a.shutdown(now, id),
            State::ShutdownReceived | State::ShutdownAckSent => {
                let cumulative_tsn_ack = Tsn(tsn.wrapping_sub(1));
                net.forge(Host::A, tag, &[Chunk::Shutdown { cumulative_tsn_ack }])
                    .expect("taken");
            }
            _ => {}
        }
        net.drain(Host::A);
        assert_eq!(net.state(Host::A, id), state);
        (net, id, tag, tsn)
    }
}
