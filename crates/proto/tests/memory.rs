//! Memory of an idle association.

#[path = "suite/support/mod.rs"]
mod support;

use support::{Host, Net};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, Message};

#[test]
fn an_idle_association_uses_at_most_2384_bytes_at_each_end() {
    let (mut net, a, b) = Net::established(1, &AssociationConfig::default());
    let idle = |net: &mut Net| {
        let at_a = net.a.association(a).unwrap().memory();
        let at_b = net.b.association(b).unwrap().memory();
        (at_a, at_b)
    };
    let (at_a, at_b) = idle(&mut net);
    assert!(
        at_a <= 2384 && at_b <= 2384,
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
    assert!(at_a <= 2384 && at_b <= 2384, "{at_a} and {at_b} bytes after a transfer");
}

/// Tuned buffers that have not grown take only the memory of the tuning's own state.
#[test]
fn an_idle_association_with_tuned_buffers_takes_at_most_64_bytes_more() {
    let idle = |buffer_max| {
        let config = AssociationConfig {
            recv_buffer_max: buffer_max,
            send_buffer_max: buffer_max,
            ..AssociationConfig::default()
        };
        let (mut net, a, b) = Net::established(1, &config);
        net.run_for(Span::from_secs(100));
        [(&net.a, a), (&net.b, b)].map(|(end, id)| end.association(id).unwrap().memory())
    };
    let (tuned, fixed) = (idle(Some(16 << 20)), idle(None));
    assert!(
        tuned[0] <= fixed[0] + 64 && tuned[1] <= fixed[1] + 64,
        "{tuned:?}, {fixed:?}"
    );
}
