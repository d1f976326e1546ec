//! Any bytes are read without panic or endless loop, and what reads well is written again and reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whimbrel_wire::{
    ByteSink, Cause, Causes, Checksum, ChecksumField, Chunk, OwnedPacket, PacketSink, PacketView, Parameters,
    packet_checksum, stored_checksum,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = PacketView::parse(bytes, Checksum::Ignore) else {
        assert!(bytes.len() < 12);
        return;
    };
    let verified = PacketView::parse(bytes, Checksum::Verify).is_ok();
    assert_eq!(verified, packet_checksum(bytes) == stored_checksum(bytes));

    let (mut copy, mut owned) = (Vec::new(), OwnedPacket::new());
    let mut sink = ByteSink::new(&mut copy, ChecksumField::Compute);
    sink.begin(view.header());
    owned.begin(view.header());
    let mut wire_len = 12;
    let mut covered = 0;
    if view.authenticated(&mut |part| covered += part.len()) {
        assert!(covered >= 8 && covered <= bytes.len());
    }
    for chunk in view.chunks().flatten() {
        lists(&chunk);
        sink.push(&chunk);
        owned.push(&chunk);
        wire_len += chunk.wire_len();
    }
    assert_eq!(sink.finish(), wire_len);
    assert_eq!(owned.finish(), wire_len);
    let again = PacketView::parse(&copy, Checksum::Verify).expect("just written");
    assert!(again.chunks().map(Result::ok).eq(view.chunks().filter(Result::is_ok).map(Result::ok)));
    assert!(again.chunks().eq(owned.view().chunks()));
});

/// Walks through whatever the chunk lists, at most once per byte.
fn lists(chunk: &Chunk<'_>) {
    match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) => parameters(init.parameters),
        Chunk::Asconf(asconf) | Chunk::AsconfAck(asconf) => parameters(asconf.parameters),
        Chunk::Abort { causes, .. } | Chunk::Error { causes } => error_causes(*causes),
        Chunk::Sack(sack) => {
            assert_eq!(sack.gaps.iter().count(), sack.gaps.len());
            assert_eq!(sack.duplicates.iter().count(), sack.duplicates.len());
        }
        _ => {}
    }
}

fn parameters(list: Parameters<'_>) {
    let mut copy = Vec::new();
    let mut good = 0;
    for parameter in list.iter().flatten() {
        parameter.emit(&mut copy);
        good += 1;
    }
    assert!(good <= list.wire_bytes().len() / 4);
    let copied = Parameters::from_wire_bytes(&copy);
    assert!(copied.iter().map(Result::ok).eq(list.iter().filter(Result::is_ok).map(Result::ok)));
    assert_eq!(list.iter().count(), list.raw().count());
}

fn error_causes(list: Causes<'_>) {
    let mut copy = Vec::new();
    for cause in list.iter().flatten() {
        if let Cause::UnrecognizedParameters(inner) | Cause::RestartWithNewAddresses(inner) = cause {
            parameters(inner);
        }
        cause.emit(&mut copy);
    }
    let copied = Causes::from_wire_bytes(&copy);
    assert!(copied.iter().map(Result::ok).eq(list.iter().filter(Result::is_ok).map(Result::ok)));
}
