//! Queues and losses of links.

use whimbrel_sim::config::{FlowKind, LossConfig, MessageSizes, QueueConfig, SimConfig, TrafficKind};

/// Bytes of the IP and UDP headers.
const UDP_HEADERS: f64 = 28.0;

/// Packets that arrive as a Poisson process at one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// Arrivals per second.
    arrivals: f64,
    /// Mean service time, s.
    service: f64,
    /// Mean square of the service time, s².
    square: f64,
    /// Propagation delay behind the server, s.
    propagation: f64,
}

impl Queue {
    /// Returns the mean time in the queue before service, s: the formula of Pollaczek and Khinchine (Kleinrock 1975, 5.106).
    fn wait(&self) -> f64 {
        let load = self.arrivals * self.service;
        self.arrivals * self.square / (2.0 * (1.0 - load))
    }

    /// Returns the mean delay from arrival to the other end of the link, s.
    pub(super) fn delay(&self) -> f64 {
        self.wait() + self.service + self.propagation
    }

    /// Returns the mean number of packets that wait (Little's law).
    pub(super) fn length(&self) -> f64 {
        self.arrivals * self.wait()
    }
}

/// Returns the queue of the only link, which datagrams of one Poisson flow enter.
pub(super) fn queue(config: &SimConfig) -> Option<Queue> {
    let ([flow], [link]) = (config.flow.as_slice(), config.link.as_slice()) else {
        return None;
    };
    let traffic = &flow.traffic;
    if flow.kind != FlowKind::Udp || traffic.kind != TrafficKind::Poisson {
        return None;
    }
    let bytes = f64::from(traffic.message_bytes);
    let byte_time = 8.0 / link.rate?.as_bps() as f64;
    let deviation = match traffic.message_sizes {
        MessageSizes::Constant => 0.0,
        // Headers are constant: only the message's length varies.
        MessageSizes::Exponential => bytes * byte_time,
    };
    let service = (bytes + UDP_HEADERS) * byte_time;
    Some(Queue {
        arrivals: traffic.rate?.as_bps() as f64 / (8.0 * bytes),
        service,
        square: service * service + deviation * deviation,
        propagation: link.delay.as_secs_f64(),
    })
}

/// A channel of two states that takes a step with each packet (Gilbert 1960, Elliott 1963).
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    good_to_bad: f64,
    bad_to_good: f64,
    good_loss: f64,
    bad_loss: f64,
}

impl Chain {
    /// Returns the fraction of packets that are lost.
    pub(super) fn loss(&self) -> f64 {
        let bad = self.good_to_bad / (self.good_to_bad + self.bad_to_good);
        bad * self.bad_loss + (1.0 - bad) * self.good_loss
    }

    /// Returns the mean number of consecutive losses, if none is lost in the good state: after a loss the channel is bad, and the next
    /// packet is lost if it stays so.
    pub(super) fn burst(&self) -> Option<f64> {
        (self.good_loss == 0.0).then(|| 1.0 / (1.0 - (1.0 - self.bad_to_good) * self.bad_loss))
    }
}

/// Returns the Gilbert-Elliott channel of the first link.
pub(super) fn gilbert(config: &SimConfig) -> Option<Chain> {
    config.link.first()?.loss.iter().find_map(|loss| match *loss {
        LossConfig::GilbertElliott {
            good_to_bad,
            bad_to_good,
            good_loss,
            bad_loss,
        } => Some(Chain {
            good_to_bad,
            bad_to_good,
            good_loss,
            bad_loss,
        }),
        _ => None,
    })
}

/// Returns the average queue at which RED drops the excess of an offered load above 1. Drops are spread evenly over 1 to 1/p arrivals, which
/// makes one of (1 + 1/p) / 2 a drop (Floyd and Jacobson 1993, section 7, method 2); p rises linearly from 0 at `min` to `max_p` at `max`.
fn red_average(load: f64, min: f64, max: f64, max_p: f64) -> Option<f64> {
    let excess = 1.0 - 1.0 / load;
    let p = excess / (2.0 - excess);
    (load > 1.0 && p < max_p).then(|| min + (max - min) * p / max_p)
}

/// Returns the mean queue of the first link, whose RED queue a datagram flow overloads.
pub(super) fn red_queue(config: &SimConfig) -> Option<f64> {
    let (flow, link) = (config.flow.first()?, config.link.first()?);
    let QueueConfig::Red(red) = &link.queue else {
        return None;
    };
    let bytes = f64::from(flow.traffic.message_bytes);
    let offered = flow.traffic.rate?.as_bps() as f64 * (bytes + UDP_HEADERS) / bytes;
    red_average(offered / link.rate?.as_bps() as f64, red.min, red.max, red.max_p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_queues_have_their_known_waits() {
        let of = |load: f64, square: f64| Queue {
            arrivals: load / 0.01,
            service: 0.01,
            square,
            propagation: 0.0,
        };
        // M/D/1 at 0.8: 0.8 / (2 x 0.2) services; M/M/1: 0.8 / 0.2 services, and 3.2 packets wait.
        assert!((of(0.8, 1e-4).wait() - 0.02).abs() < 1e-12);
        let exponential = of(0.8, 2e-4);
        assert!((exponential.wait() - 0.04).abs() < 1e-12);
        assert!((exponential.length() - 3.2).abs() < 1e-9);
        assert!((exponential.delay() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn a_chain_loses_its_share_in_bursts_of_its_length() {
        let mut chain = Chain {
            good_to_bad: 0.01,
            bad_to_good: 0.25,
            good_loss: 0.0,
            bad_loss: 1.0,
        };
        assert!((chain.loss() - 0.01 / 0.26).abs() < 1e-12);
        assert_eq!(chain.burst(), Some(4.0));
        // Half of the bad packets: a loss is followed by another with 0.75 x 0.5.
        chain.bad_loss = 0.5;
        assert!((chain.burst().expect("a length") - 1.6).abs() < 1e-12);
        chain.good_loss = 0.1;
        assert_eq!(chain.burst(), None);
    }

    #[test]
    fn red_settles_where_it_drops_the_excess() {
        // Load 1.25: 20 % too much, p = 1/9: a drop in every (1 + 9) / 2 arrivals.
        let average = red_average(1.25, 10.0, 28.0, 0.5).expect("an average");
        assert!((average - (10.0 + 18.0 * 2.0 / 9.0)).abs() < 1e-9, "{average}");
        assert_eq!(red_average(0.9, 10.0, 28.0, 0.5), None);
        assert_eq!(red_average(4.0, 10.0, 28.0, 0.5), None);
    }
}
