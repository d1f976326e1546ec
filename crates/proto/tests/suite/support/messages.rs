//! Messages that carry their number, and what became of them. A sends, B reads.

use whimbrel_proto::{AssocId, Event, Message, Reliability, SendFailureCause};

use super::{Host, Net};

/// Returns a message for stream 0 whose context is this number, and whose content begins with it.
pub fn numbered(number: u32, len: usize, reliability: Reliability) -> Message {
    let mut content = vec![number as u8; len];
    content.splice(0..len.min(4), number.to_be_bytes());
    Message {
        context: number,
        reliability,
        ..Message::new(0, content)
    }
}

/// Returns the number with which a content begins.
pub fn number_of(content: &[u8]) -> u32 {
    u32::from_be_bytes(content[..4].try_into().expect("four bytes"))
}

/// Returns the numbers of the messages that have arrived.
pub fn arrived(net: &Net) -> Vec<u32> {
    let contents = net.contents(Host::B);
    contents.iter().map(|content| number_of(content)).collect()
}

/// Returns the numbers of the messages that were reported as given up, and whether a part had been sent.
pub fn given_up(net: &Net) -> Vec<(u32, bool)> {
    let failed = |event| match event {
        Event::SendFailed(failure) => {
            assert_eq!(failure.cause, SendFailureCause::GivenUp);
            Some((failure.context, failure.sent))
        }
        _ => None,
    };
    net.events_of(Host::A).into_iter().filter_map(failed).collect()
}

/// Checks that both buffers are empty and nothing is in flight.
pub fn nothing_is_held(net: &Net, a: AssocId, b: AssocId) {
    let sender = net.a.association(a).expect("A");
    assert_eq!(sender.buffered_send(), 0);
    assert!(sender.paths().all(|path| path.flight == 0));
    let receiver = net.b.association(b).expect("B");
    assert_eq!(receiver.buffered_receive(), 0);
}
