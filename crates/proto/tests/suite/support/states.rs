//! An endpoint brought into each state by forged packets.

use whimbrel_proto::{AssocId, AssociationConfig, Message, State};
use whimbrel_wire::{Chunk, ChunkType, Parameter, Tsn};

use super::{Fate, Host, Net, init, parameters};

impl Net {
    /// Returns A in this state, with its tag and first TSN; from here on, nothing of A reaches B. A has a message outstanding if the state
    /// permits it.
    pub fn in_state(config: &AssociationConfig, state: State) -> (Net, AssocId, u32, u32) {
        let mut net = Net::new(1);
        net.filter = Box::new(|_| Fate::Drop);
        let id = net.connect(config, 1);
        net.drain(Host::A);
        let own = net.last(Host::A, ChunkType::INIT);
        let (tag, tsn) = (own.init().initiate_tag, own.init().initial_tsn.0);
        if state != State::CookieWait {
            let list = parameters(&[Parameter::StateCookie(b"biscuit")]);
            net.forge(Host::A, tag, &[Chunk::InitAck(init(9, &list))])
                .expect("accepted");
        }
        if !matches!(state, State::CookieWait | State::CookieEchoed) {
            net.forge(Host::A, tag, &[Chunk::CookieAck]).expect("accepted");
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
                    .expect("accepted");
            }
            _ => {}
        }
        net.drain(Host::A);
        assert_eq!(net.state(Host::A, id), state);
        (net, id, tag, tsn)
    }
}
