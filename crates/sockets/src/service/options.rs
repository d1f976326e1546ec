//! Options of a socket, with the numbers and layouts of Linux.

use std::net::IpAddr;

use nix::errno::Errno;
use whimbrel::{AssociationConfig, Scheme, Span, StackConfig};

use crate::address;
use crate::control::reading;
use crate::service::notify;

/// Numbers of options at the level IPPROTO_SCTP.
pub(crate) mod number {
    pub(crate) const RTOINFO: i32 = 0;
    pub(crate) const ASSOCINFO: i32 = 1;
    pub(crate) const INITMSG: i32 = 2;
    pub(crate) const NODELAY: i32 = 3;
    pub(crate) const AUTOCLOSE: i32 = 4;
    pub(crate) const PRIMARY_ADDR: i32 = 6;
    pub(crate) const DISABLE_FRAGMENTS: i32 = 8;
    pub(crate) const PEER_ADDR_PARAMS: i32 = 9;
    pub(crate) const DEFAULT_SEND_PARAM: i32 = 10;
    pub(crate) const EVENTS: i32 = 11;
    pub(crate) const MAXSEG: i32 = 13;
    pub(crate) const STATUS: i32 = 14;
    pub(crate) const PEER_ADDR_INFO: i32 = 15;
    pub(crate) const DELAYED_SACK: i32 = 16;
    pub(crate) const RECVRCVINFO: i32 = 32;
    pub(crate) const DEFAULT_SNDINFO: i32 = 34;
    pub(crate) const EVENT: i32 = 127;
}

/// `struct sctp_sndinfo` less the association, and the lifetime of `struct sctp_sndrcvinfo`.
#[derive(Clone, Copy, Default, Debug)]
struct SendDefaults {
    stream: u16,
    flags: u16,
    ppid: u32,
    context: u32,
    lifetime: u32,
}

/// What a program has set. Times in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    outbound_streams: u16,
    inbound_streams: u16,
    init_attempts: u16,
    init_timeout: u16,
    rto: [u32; 3],
    max_retrans: u16,
    cookie_life: u32,
    heartbeats: bool,
    heartbeat_interval: u32,
    path_max_retrans: u16,
    path_mtu: u32,
    search_mtu: bool,
    sack_delay: u32,
    sack_frequency: u32,
    nodelay: bool,
    disable_fragments: bool,
    maxseg: u32,
    autoclose: u32,
    send: SendDefaults,
    events: u16,
    receive_info: bool,
    /// SO_RCVBUF, if it was set.
    pub(crate) receive_buffer: Option<u32>,
    /// SO_LINGER with a time of 0: closing aborts.
    pub(crate) aborts_on_close: bool,
    /// IPV6_V6ONLY.
    pub(crate) v6_only: bool,
}

impl Default for Options {
    /// The defaults of Linux, except for RTO.Initial, which is that of RFC 9260.
    fn default() -> Self {
        Options {
            outbound_streams: 10,
            inbound_streams: u16::MAX,
            init_attempts: 8,
            init_timeout: 60_000,
            rto: [1000, 60_000, 1000],
            max_retrans: 10,
            cookie_life: 60_000,
            heartbeats: true,
            heartbeat_interval: 30_000,
            path_max_retrans: 5,
            path_mtu: 0,
            search_mtu: true,
            sack_delay: 200,
            sack_frequency: 2,
            nodelay: false,
            disable_fragments: false,
            maxseg: 0,
            autoclose: 0,
            send: SendDefaults::default(),
            events: 0,
            receive_info: false,
            receive_buffer: None,
            aborts_on_close: false,
            v6_only: false,
        }
    }
}

/// Reads values of a structure; what the program has passed may be too short.
struct Layout<'a>(&'a [u8]);

impl Layout<'_> {
    fn u16(&self, at: usize) -> Result<u16, Errno> {
        let bytes = self.0.get(at..at + 2).ok_or(Errno::EINVAL)?;
        Ok(u16::from_ne_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&self, at: usize) -> Result<u32, Errno> {
        let bytes = self.0.get(at..at + 4).ok_or(Errno::EINVAL)?;
        Ok(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The structure has to have this length.
    fn exactly(&self, len: usize) -> Result<(), Errno> {
        if self.0.len() == len {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }

    fn flag(&self) -> Result<bool, Errno> {
        self.u32(0).map(|value| value != 0)
    }
}

// SPP_* of linux/sctp.h
const HB_ENABLE: u32 = 1;
const HB_DISABLE: u32 = 1 << 1;
const HB_DEMAND: u32 = 1 << 2;
const PMTUD_ENABLE: u32 = 1 << 3;
const PMTUD_DISABLE: u32 = 1 << 4;
const SACKDELAY_ENABLE: u32 = 1 << 5;
const SACKDELAY_DISABLE: u32 = 1 << 6;
const HB_TIME_IS_ZERO: u32 = 1 << 7;

impl Options {
    /// Whether notifications of this type are wanted.
    pub(crate) fn wants(&self, kind: u16) -> bool {
        self.events & (1 << kind) != 0
    }

    /// What the reading half has to know.
    pub(crate) fn reading(&self) -> u32 {
        let info = if self.receive_info { reading::RCVINFO } else { 0 };
        let classic = if self.wants(notify::DATA_IO) {
            reading::SNDRCV
        } else {
            0
        };
        info | classic
    }

    /// The configuration of associations.
    pub(crate) fn association(&self, scheme: Scheme) -> AssociationConfig {
        let millis = |value: u32| Span::from_millis(u64::from(value));
        let [initial, max, min] = self.rto;
        let defaults = StackConfig::default().association;
        let mut config = AssociationConfig {
            scheme,
            outbound_streams: self.outbound_streams,
            max_inbound_streams: self.inbound_streams,
            max_init_retransmits: u32::from(self.init_attempts),
            rto_initial: Some(millis(initial.clamp(min, max))),
            rto_min: millis(min),
            rto_max: millis(max),
            association_max_retrans: u32::from(self.max_retrans.min(255)),
            path_max_retrans: u32::from(self.path_max_retrans.min(255)),
            hb_interval: millis(if self.heartbeats { self.heartbeat_interval } else { 0 }),
            sack_delay: millis(self.sack_delay),
            sack_frequency: self.sack_frequency,
            autoclose: (self.autoclose > 0).then(|| Span::from_secs(u64::from(self.autoclose))),
            ..defaults
        };
        if !self.search_mtu {
            config.max_mtu = None;
            config.mtu = u16::try_from(self.path_mtu).unwrap_or(u16::MAX).max(512);
        }
        if let Some(bytes) = self.receive_buffer {
            config.recv_buffer = bytes.clamp(4096, 1 << 30);
            config.recv_buffer_max = None;
        }
        config
    }

    /// Sets an option of the level IPPROTO_SCTP.
    pub(crate) fn set(&mut self, option: i32, bytes: &[u8]) -> Result<(), Errno> {
        let layout = Layout(bytes);
        match option {
            number::RTOINFO => {
                layout.exactly(16)?;
                self.set_rto([layout.u32(4)?, layout.u32(8)?, layout.u32(12)?])
            }
            number::ASSOCINFO => {
                layout.exactly(20)?;
                take(&mut self.max_retrans, layout.u16(4)?);
                take(&mut self.cookie_life, layout.u32(16)?);
                Ok(())
            }
            number::INITMSG => self.set_init(&layout),
            number::NODELAY => layout.flag().map(|value| self.nodelay = value),
            number::DISABLE_FRAGMENTS => layout.flag().map(|value| self.disable_fragments = value),
            number::RECVRCVINFO => layout.flag().map(|value| self.receive_info = value),
            number::AUTOCLOSE => layout.u32(0).map(|value| self.autoclose = value.min(365 * 24 * 3600)),
            number::MAXSEG => {
                // `struct sctp_assoc_value`, or an int.
                let value = layout.u32(if bytes.len() >= 8 { 4 } else { 0 })?;
                if value != 0 && !(452..=65_515).contains(&value) {
                    return Err(Errno::EINVAL);
                }
                self.maxseg = value;
                Ok(())
            }
            number::PEER_ADDR_PARAMS => self.set_peer_params(&layout),
            number::DELAYED_SACK => self.set_delayed_sack(&layout),
            number::DEFAULT_SEND_PARAM => {
                layout.exactly(32)?;
                self.send = SendDefaults {
                    stream: layout.u16(0)?,
                    flags: layout.u16(4)?,
                    ppid: layout.u32(8)?,
                    context: layout.u32(12)?,
                    lifetime: layout.u32(16)?,
                };
                Ok(())
            }
            number::DEFAULT_SNDINFO => {
                layout.exactly(16)?;
                self.send = SendDefaults {
                    stream: layout.u16(0)?,
                    flags: layout.u16(2)?,
                    ppid: layout.u32(4)?,
                    context: layout.u32(8)?,
                    lifetime: self.send.lifetime,
                };
                Ok(())
            }
            number::EVENTS => {
                if bytes.len() > notify::TYPES {
                    return Err(Errno::EINVAL);
                }
                self.events = set_bits(bytes);
                Ok(())
            }
            number::EVENT => {
                let kind = layout.u16(4)?.wrapping_sub(1 << 15);
                let on = *bytes.get(6).ok_or(Errno::EINVAL)? != 0;
                if usize::from(kind) >= notify::TYPES {
                    return Err(Errno::EINVAL);
                }
                self.events = self.events & !(1 << kind) | u16::from(on) << kind;
                Ok(())
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn set_init(&mut self, layout: &Layout<'_>) -> Result<(), Errno> {
        layout.exactly(8)?;
        take(&mut self.outbound_streams, layout.u16(0)?);
        take(&mut self.inbound_streams, layout.u16(2)?);
        take(&mut self.init_attempts, layout.u16(4)?.min(255));
        take(&mut self.init_timeout, layout.u16(6)?);
        Ok(())
    }

    /// `struct sctp_sack_info`, or without the number of packets `struct sctp_assoc_value`.
    fn set_delayed_sack(&mut self, layout: &Layout<'_>) -> Result<(), Errno> {
        let delay = layout.u32(4)?;
        let frequency = if layout.0.len() >= 12 { layout.u32(8)? } else { 0 };
        if delay > 500 {
            return Err(Errno::EINVAL);
        }
        take(&mut self.sack_delay, delay);
        take(&mut self.sack_frequency, frequency.min(255));
        Ok(())
    }

    fn set_rto(&mut self, [initial, max, min]: [u32; 3]) -> Result<(), Errno> {
        let mut rto = self.rto;
        take(&mut rto[0], initial);
        take(&mut rto[1], max);
        take(&mut rto[2], min);
        if rto[2] > rto[1] || rto[1] > 86_400_000 {
            return Err(Errno::EINVAL);
        }
        self.rto = rto;
        Ok(())
    }

    fn set_peer_params(&mut self, layout: &Layout<'_>) -> Result<(), Errno> {
        if !matches!(layout.0.len(), 152 | 156) {
            return Err(Errno::EINVAL);
        }
        let flags = layout.u32(146)?;
        let both = |a, b| flags & (a | b) == a | b;
        if both(HB_ENABLE, HB_DISABLE) || both(PMTUD_ENABLE, PMTUD_DISABLE) || both(SACKDELAY_ENABLE, SACKDELAY_DISABLE)
        {
            return Err(Errno::EINVAL);
        }
        let (delay, mtu) = (layout.u32(142)?, layout.u32(138)?);
        if delay > 500 || (mtu != 0 && mtu < 512) {
            return Err(Errno::EINVAL);
        }
        if flags & HB_DEMAND != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if flags & (HB_ENABLE | HB_DISABLE) != 0 {
            self.heartbeats = flags & HB_ENABLE != 0;
        }
        if flags & HB_TIME_IS_ZERO != 0 {
            self.heartbeat_interval = 0;
        }
        take(&mut self.heartbeat_interval, layout.u32(132)?.min(86_400_000));
        take(&mut self.path_max_retrans, layout.u16(136)?);
        if flags & PMTUD_DISABLE != 0 && mtu != 0 {
            (self.search_mtu, self.path_mtu) = (false, mtu);
        }
        if flags & PMTUD_ENABLE != 0 {
            self.search_mtu = true;
        }
        if flags & SACKDELAY_DISABLE != 0 {
            self.sack_frequency = 1;
        }
        take(&mut self.sack_delay, delay);
        Ok(())
    }

    /// Returns an option of the level IPPROTO_SCTP that does not depend on an association. `asked` is what the program has passed in.
    pub(crate) fn get(&self, option: i32, asked: &[u8]) -> Result<Vec<u8>, Errno> {
        let layout = Layout(asked);
        let of = layout.u32(0).unwrap_or(0);
        let int = |value: u32| Ok(value.to_ne_bytes().to_vec());
        match option {
            number::RTOINFO => Ok(words(&[of, self.rto[0], self.rto[1], self.rto[2]])),
            number::INITMSG => {
                let all = [
                    self.outbound_streams,
                    self.inbound_streams,
                    self.init_attempts,
                    self.init_timeout,
                ];
                Ok(all.into_iter().flat_map(u16::to_ne_bytes).collect())
            }
            number::NODELAY => int(self.nodelay.into()),
            number::DISABLE_FRAGMENTS => int(self.disable_fragments.into()),
            number::RECVRCVINFO => int(self.receive_info.into()),
            number::AUTOCLOSE => int(self.autoclose),
            number::MAXSEG if asked.len() >= 8 => Ok(words(&[of, self.maxseg])),
            number::MAXSEG => int(self.maxseg),
            number::DELAYED_SACK if asked.len() >= 12 => Ok(words(&[of, self.sack_delay, self.sack_frequency])),
            number::DELAYED_SACK => Ok(words(&[of, self.sack_delay])),
            number::PEER_ADDR_PARAMS => self.peer_params(asked),
            number::DEFAULT_SEND_PARAM => {
                let send = &self.send;
                let mut bytes = Vec::with_capacity(32);
                for value in [send.stream, 0, send.flags, 0] {
                    bytes.extend(value.to_ne_bytes());
                }
                bytes.extend(words(&[send.ppid, send.context, send.lifetime, 0, 0, of]));
                Ok(bytes)
            }
            number::DEFAULT_SNDINFO => {
                let mut bytes = Vec::with_capacity(16);
                bytes.extend(self.send.stream.to_ne_bytes());
                bytes.extend(self.send.flags.to_ne_bytes());
                bytes.extend(words(&[self.send.ppid, self.send.context, of]));
                Ok(bytes)
            }
            number::EVENTS => {
                let all = (0..notify::TYPES).map(|kind| u8::from(self.events & (1 << kind) != 0));
                Ok(all.take(asked.len()).collect())
            }
            number::EVENT => {
                let kind = layout.u16(4)?.wrapping_sub(1 << 15);
                if usize::from(kind) >= notify::TYPES {
                    return Err(Errno::EINVAL);
                }
                let mut bytes = asked.get(..8).ok_or(Errno::EINVAL)?.to_vec();
                bytes[6] = self.wants(kind).into();
                Ok(bytes)
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// The timers and limits of an association (SCTP_ASSOCINFO), with what only the association knows.
    pub(crate) fn assoc_info(&self, assoc: i32, paths: u16, peer_window: u32, window: u32) -> Vec<u8> {
        let mut bytes = assoc.to_ne_bytes().to_vec();
        bytes.extend(self.max_retrans.to_ne_bytes());
        bytes.extend(paths.to_ne_bytes());
        bytes.extend(words(&[peer_window, window, self.cookie_life]));
        bytes
    }

    fn peer_params(&self, asked: &[u8]) -> Result<Vec<u8>, Errno> {
        if asked.len() < 152 {
            return Err(Errno::EINVAL);
        }
        let mut bytes = asked[..asked.len().min(156)].to_vec();
        let flags = if self.heartbeats { HB_ENABLE } else { HB_DISABLE }
            | if self.search_mtu { PMTUD_ENABLE } else { PMTUD_DISABLE }
            | if self.sack_frequency == 1 {
                SACKDELAY_DISABLE
            } else {
                SACKDELAY_ENABLE
            };
        bytes[132..136].copy_from_slice(&self.heartbeat_interval.to_ne_bytes());
        bytes[136..138].copy_from_slice(&self.path_max_retrans.to_ne_bytes());
        bytes[138..142].copy_from_slice(&self.path_mtu.to_ne_bytes());
        bytes[142..146].copy_from_slice(&self.sack_delay.to_ne_bytes());
        bytes[146..150].copy_from_slice(&flags.to_ne_bytes());
        bytes[150..].fill(0);
        Ok(bytes)
    }
}

/// Takes over a value unless it is 0, which leaves what was before (RFC 6458 §8.1).
fn take<T: PartialEq + Default>(place: &mut T, value: T) {
    if value != T::default() {
        *place = value;
    }
}

fn set_bits(flags: &[u8]) -> u16 {
    let on = flags
        .iter()
        .take(notify::TYPES)
        .enumerate()
        .filter(|(_, flag)| **flag != 0);
    on.fold(0, |bits, (place, _)| bits | 1 << place)
}

/// Values of 32 bits, one after the other.
pub(crate) fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Returns the address in a structure that begins with an association and has a `struct sockaddr_storage` after it.
pub(crate) fn address_in(bytes: &[u8]) -> Option<IpAddr> {
    address::parse(bytes.get(4..)?).map(|addr| addr.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_leave_values_and_wrong_lengths_are_refused() {
        let mut options = Options::default();
        options.set(number::INITMSG, &[5, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        assert_eq!(
            options.get(number::INITMSG, &[]).unwrap(),
            [5, 0, 255, 255, 2, 0, 0x60, 0xea]
        );
        assert_eq!(options.set(number::INITMSG, &[5, 0]), Err(Errno::EINVAL));
        assert_eq!(
            options.set(number::RTOINFO, &words(&[0, 0, 100, 200])),
            Err(Errno::EINVAL)
        );
        options.set(number::RTOINFO, &words(&[0, 300, 5000, 200])).unwrap();
        assert_eq!(options.get(number::RTOINFO, &[]).unwrap(), words(&[0, 300, 5000, 200]));
        assert_eq!(options.set(99, &[0; 4]), Err(Errno::ENOPROTOOPT));
        assert_eq!(options.get(99, &[]), Err(Errno::ENOPROTOOPT));
    }

    #[test]
    fn event_subscriptions_have_any_length() {
        let mut options = Options::default();
        options.set(number::EVENTS, &[1]).unwrap();
        assert_eq!(options.reading(), reading::SNDRCV);
        options.set(number::EVENTS, &[0, 1, 0, 0, 0, 1, 0, 0]).unwrap();
        assert!(options.wants(notify::ASSOC_CHANGE) && options.wants(notify::SHUTDOWN));
        assert_eq!(options.reading(), 0);
        assert_eq!(options.set(number::EVENTS, &[1; 15]), Err(Errno::EINVAL));
        options.set(number::EVENT, &[0, 0, 0, 0, 9, 0x80, 1, 0]).unwrap();
        assert!(options.wants(9));
        assert_eq!(options.get(number::EVENTS, &[0; 4]).unwrap(), [0, 1, 0, 0]);
    }

    #[test]
    fn peer_parameters_have_both_lengths() {
        let mut options = Options::default();
        let mut params = options.get(number::PEER_ADDR_PARAMS, &[0; 156]).unwrap();
        assert_eq!(params.len(), 156);
        params[132..136].copy_from_slice(&700_u32.to_ne_bytes());
        params[136..138].copy_from_slice(&2_u16.to_ne_bytes());
        options.set(number::PEER_ADDR_PARAMS, &params[..152]).unwrap();
        let config = options.association(Scheme::by_name("multipath").unwrap());
        assert_eq!(config.hb_interval, Span::from_millis(700));
        assert_eq!(config.path_max_retrans, 2);
        params[146] = 3;
        assert_eq!(options.set(number::PEER_ADDR_PARAMS, &params), Err(Errno::EINVAL));
    }
}
