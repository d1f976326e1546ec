//! What one association may use.

/// Limits of an association, so that one client leaves something to the others.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// TCP connections of one association at a time; further ones are refused
    #[arg(long = "max-connections", value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=MOST), hide_short_help = true)]
    pub(crate) connections: u32,
    /// Flows of UDP datagrams of one association at a time; a further one replaces the one that was used least recently
    #[arg(long = "max-flows", value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=MOST), hide_short_help = true)]
    pub(crate) flows: u32,
    /// With --server and --tun: addresses that one client may use; a further one replaces its oldest
    #[arg(long = "max-addresses", value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=MOST), requires = "server", hide_short_help = true)]
    pub(crate) addresses: u32,
}

/// A connection uses up to 2 MiB at each end, and a flow a socket.
const MOST: i64 = 65_536;
