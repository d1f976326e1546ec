//! Files over SCTP: what `whimbrel send` and `whimbrel recv` say to each other, and what they share.

pub(crate) mod address;
pub(crate) mod console;
pub(crate) mod failure;
pub(crate) mod frame;
pub(crate) mod interrupt;
pub(crate) mod progress;

use whimbrel::{AssociationConfig, Scheme, StackConfig};

/// The SCTP port of `whimbrel recv`, unless `--port` says otherwise.
pub(crate) const DEFAULT_PORT: u16 = 5000;

/// Reads the name of a scheme that needs no simulator.
pub(crate) fn parse_scheme(name: &str) -> Result<Scheme, String> {
    let usable = |scheme: &Scheme| !scheme.parts().discriminator.asks_for_truth();
    let found = Scheme::by_name(name);
    found.filter(usable).ok_or_else(|| {
        let names: Vec<_> = Scheme::all().filter(usable).map(Scheme::name).collect();
        let problem = match found {
            Some(_) => "it asks the simulator why packets died, and here nobody knows",
            None => "there is no such scheme",
        };
        format!("{problem}; there are {}", names.join(", "))
    })
}

/// Buffers for files: a megabyte keeps 100 Mbit/s busy over 80 ms.
pub(crate) fn association_config(scheme: Scheme) -> AssociationConfig {
    AssociationConfig {
        scheme,
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        outbound_streams: 1,
        // Half a minute for a host that does not answer, about a minute for one that has gone silent.
        max_init_retransmits: 4,
        path_max_retrans: 3,
        association_max_retrans: 5,
        ..StackConfig::default().association
    }
}
