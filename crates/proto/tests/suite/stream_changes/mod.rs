//! Streams that are reset and added (RFC 6525).

mod added;
mod endings;
mod inbound;
mod kept;
mod outbound;
mod random;
mod requests;
mod rules;

use crate::support::messages::{given_up, nothing_is_held, number_of, numbered};
use crate::support::{Fate, Host, Net, Sent, addrs, endpoint, port, view};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, AssociationConfig, Event, Message, Reliability, Scheduler, State, StreamChange, StreamChangeError,
    StreamList,
};
use whimbrel_wire::{Chunk, ChunkType, NumberList, Parameter, Parameters, Tsn, reconfig_result};

fn config() -> AssociationConfig {
    AssociationConfig {
        stream_changes: true,
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

fn some(streams: &[u16]) -> StreamList {
    StreamList::of(streams.iter().copied())
}

/// Returns an established association between ends with these settings, with all of its packets.
fn between(own: &AssociationConfig, peer: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let mut net = Net::with_config(1, peer, 1);
    net.capture = true;
    net.a = endpoint(Host::A, 1, own, 5);
    let a = net.connect(own, 1);
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    (net, a, b)
}

fn established(config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    between(config, config)
}

fn change(net: &mut Net, host: Host, id: AssocId, change: StreamChange) {
    let now = net.now;
    net.host(host)
        .change_streams(now, id, change)
        .expect("the change is accepted");
    net.drain(host);
}

fn reset(net: &mut Net, a: AssocId, streams: &[u16]) {
    change(net, Host::A, a, StreamChange::ResetOutbound(some(streams)));
}

/// Returns the message numbers of the chunks of data that a host has sent on a stream: SSN or MID.
fn numbers(net: &Net, host: Host, stream: u16) -> Vec<u32> {
    let sent = net.wire.iter().filter(|sent| sent.from == host);
    let data = sent.flat_map(|sent| {
        sent.data()
            .into_iter()
            .map(|data| (data.stream, data.number))
            .collect::<Vec<_>>()
    });
    data.filter(|(of, _)| *of == stream)
        .map(|(_, number)| match number {
            whimbrel_wire::MessageNumber::Ssn(ssn) => ssn.0.into(),
            whimbrel_wire::MessageNumber::Mid(mid) => mid.0,
        })
        .collect()
}

/// Returns the parameters of the RE-CONFIG chunks of a packet.
fn reconfiguration(sent: &Sent) -> Vec<Parameter<'_>> {
    let lists = sent.chunks().into_iter().filter_map(|chunk| match chunk {
        Chunk::ReConfig { parameters } => Some(parameters),
        _ => None,
    });
    lists
        .flat_map(|parameters| parameters.iter().map(|parameter| parameter.expect("valid")))
        .collect()
}

/// Returns the results of the responses that a host has sent.
fn results(net: &Net, host: Host) -> Vec<u32> {
    let sent = net.wire.iter().filter(|sent| sent.from == host);
    sent.flat_map(reconfiguration)
        .filter_map(|parameter| match parameter {
            Parameter::ReconfigResponse { result, next_tsns, .. } => {
                assert_eq!(next_tsns, None, "RFC 6525 §5.1.7 D3, D4");
                Some(result)
            }
            _ => None,
        })
        .collect()
}

fn emit(parameters: &[Parameter<'_>]) -> Vec<u8> {
    let mut list = Vec::new();
    parameters.iter().for_each(|parameter| parameter.emit(&mut list));
    list
}

/// An end receives a RE-CONFIG with these parameters from a peer that is not the other end.
fn receive_at(net: &mut Net, host: Host, parameters: &[Parameter<'_>]) {
    let list = emit(parameters);
    let parameters = Parameters::from_wire_bytes(&list);
    let _ = net.as_peer(host, &[Chunk::ReConfig { parameters }]);
    net.drain(host);
}

/// B receives a RE-CONFIG with these parameters.
fn receive(net: &mut Net, parameters: &[Parameter<'_>]) {
    receive_at(net, Host::B, parameters);
}

/// The RE-CONFIG chunks of both ends are lost.
fn lose_requests(net: &mut Net) {
    net.filter = Box::new(|sent| match sent.has(ChunkType::RE_CONFIG) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
}

/// Returns the number of the first request of an end, and the last TSN that it has assigned.
fn numbers_of(net: &Net, host: Host) -> (u32, Tsn) {
    let sent = || net.wire.iter().filter(|sent| sent.from == host);
    let initial = sent().find_map(|sent| match sent.chunks().first() {
        Some(Chunk::Init(init) | Chunk::InitAck(init)) => Some(init.initial_tsn),
        _ => None,
    });
    let initial = initial.expect("the end has sent INIT or INIT ACK");
    let last = sent().flat_map(Sent::tsns).last();
    (initial.0, last.map_or(Tsn(initial.0.wrapping_sub(1)), Tsn))
}

/// Returns the number of the next request of A, and the last TSN that it has assigned.
fn next_of_a(net: &Net) -> (u32, Tsn) {
    numbers_of(net, Host::A)
}

/// Returns how often a host has asked for a change of the streams of the other end.
fn asked(net: &Net, host: Host) -> usize {
    let sent = net.wire.iter().filter(|sent| sent.from == host);
    sent.flat_map(reconfiguration)
        .filter(|parameter| {
            matches!(
                parameter,
                Parameter::IncomingReset { .. } | Parameter::AddIncomingStreams { .. }
            )
        })
        .count()
}

/// The users of both ends read all that has arrived.
fn read_all(net: &mut Net, a: AssocId, b: AssocId) {
    net.read(Host::A, a);
    net.read(Host::B, b);
    net.drain(Host::A);
    net.drain(Host::B);
}

/// Returns a message with this number on a stream.
fn on(stream: u16, number: u32, len: usize) -> Message {
    Message {
        stream,
        ..numbered(number, len, Reliability::Full)
    }
}

/// A host sends messages on a stream.
fn send(net: &mut Net, host: Host, id: AssocId, stream: u16, count: u32) {
    for number in 0..count {
        net.send(host, id, on(stream, number, 10));
    }
}

/// Returns the changes of which the user of an end has been notified.
fn changes(net: &Net, host: Host) -> Vec<StreamChange> {
    net.changes_of(host).into_iter().map(|(_, change)| change).collect()
}
