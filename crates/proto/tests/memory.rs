//! Memory of an idle association.

#[path = "suite/support/mod.rs"]
mod support;

use support::{Host, Net};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, Message};

#[test]
fn an_idle_association_uses_less_than_2300_bytes_at_each_end() {
    let (mut net, a, b) = Net::established(1, &AssociationConfig::default());
    let idle = |net: &mut Net| {
        let at_a = net.a.association(a).unwrap().memory();
        let at_b = net.b.association(b).unwrap().memory();
        (at_a, at_b)
    };
    let (at_a, at_b) = idle(&mut net);
    assert!(
        at_a < 2300 && at_b < 2300,
        "{at_a} and {at_b} bytes after the handshake"
    );

    // The memory that the transfer needed is released by the time of the next heartbeat.
    for _ in 0..1000 {
        let now = net.now;
        if net.a.send(now, a, Message::zeros(0, 1452)).is_err() {
            net.run_for(Span::from_millis(100));
        }
    }
    net.run_for(Span::from_secs(100));
    assert!(net.contents(Host::B).len() > 900);
    let (at_a, at_b) = idle(&mut net);
    assert!(at_a < 2300 && at_b < 2300, "{at_a} and {at_b} bytes after a transfer");
}
