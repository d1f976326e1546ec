//! Bit errors of each modulation as a function of the signal to interference and noise ratio.

use core::f64::consts::{PI, SQRT_2};

use super::phy::Modulation;

/// Returns the Gaussian tail probability.
fn q(x: f64) -> f64 {
    0.5 * libm::erfc(x / SQRT_2)
}

/// Returns the probability of a bit error, after decoding if there is a code, at this ratio of powers in the channel.
pub(super) fn bit_error_rate(modulation: Modulation, ratio: f64) -> f64 {
    if ratio <= 0.0 {
        return 0.5;
    }
    let rate = match modulation {
        // Non-coherent detection of two orthogonal frequencies (Proakis): 1 MHz of noise at 1 Mbit/s.
        Modulation::Gfsk => 0.5 * libm::exp(-ratio / 2.0),
        // Differential BPSK and QPSK: 22 MHz of noise over the bit rate.
        Modulation::Dbpsk => 0.5 * libm::exp(-ratio * 22.0),
        Modulation::Dqpsk => {
            let energy = ratio * 11.0;
            let scale = (SQRT_2 + 1.0) / libm::sqrt(8.0 * PI * SQRT_2);
            scale / libm::sqrt(energy) * libm::exp(-(2.0 - SQRT_2) * energy)
        }
        // Union bounds over the distances between code words (Pursley and Taipale 1987).
        Modulation::Cck5 => {
            let tail = |weight: f64| q(libm::sqrt(weight * ratio));
            8.0 / 15.0 * (14.0 * tail(8.0) + tail(16.0))
        }
        Modulation::Cck11 => {
            let tail = |weight: f64| q(libm::sqrt(weight * ratio));
            let words = 24.0 * tail(4.0)
                + 16.0 * tail(6.0)
                + 174.0 * tail(8.0)
                + 16.0 * tail(10.0)
                + 24.0 * tail(12.0)
                + tail(16.0);
            128.0 / 255.0 * words
        }
        Modulation::Ofdm { points, code } => decoded(points, code, ratio),
    };
    rate.min(0.5)
}

/// Returns the bit error rate of the convolutional code of constraint length 7 with hard decisions: the first terms of the union
/// bound over error paths, from the distance spectrum of the code punctured to 1/2, 2/3 or 3/4.
fn decoded(points: u8, code: u8, ratio: f64) -> f64 {
    let raw = match points {
        2 => q(libm::sqrt(2.0 * ratio)),
        4 => q(libm::sqrt(ratio)),
        16 => 0.75 * q(libm::sqrt(ratio / 5.0)),
        _ => 7.0 / 12.0 * q(libm::sqrt(ratio / 21.0)),
    };
    // Bits per step; distance and bit errors of the nearest paths.
    let (steps, spectrum): (f64, [(u32, f64); 3]) = match code {
        0 => (1.0, [(10, 36.0), (12, 211.0), (14, 1404.0)]),
        1 => (2.0, [(6, 3.0), (7, 70.0), (8, 285.0)]),
        _ => (3.0, [(5, 42.0), (6, 201.0), (7, 1492.0)]),
    };
    let sum: f64 = spectrum.iter().map(|(d, bits)| bits * path_wins(*d, raw)).sum();
    sum / steps
}

/// Returns the probability that an error path at this distance is chosen, with bit error probability `p`.
fn path_wins(distance: u32, p: f64) -> f64 {
    let mut chosen = 1.0;
    let mut sum = 0.0;
    for wrong in 0..=distance {
        let term = chosen * libm::pow(p, f64::from(wrong)) * libm::pow(1.0 - p, f64::from(distance - wrong));
        if 2 * wrong > distance {
            sum += term;
        } else if 2 * wrong == distance {
            sum += 0.5 * term;
        }
        chosen *= f64::from(distance - wrong) / f64::from(wrong + 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ratio in dB at which a frame of 1024 bytes is lost half of the time.
    fn midpoint(modulation: Modulation) -> f64 {
        let (mut low, mut high) = (-20.0, 40.0);
        for _ in 0..60 {
            let db = 0.5 * (low + high);
            let rate = bit_error_rate(modulation, libm::pow(10.0, db / 10.0));
            let survives = libm::exp(8192.0 * libm::log1p(-rate));
            if survives < 0.5 { low = db } else { high = db }
        }
        low
    }

    #[test]
    fn faster_modulations_need_a_higher_ratio_and_errors_decrease_with_it() {
        let dsss = [
            Modulation::Dbpsk,
            Modulation::Dqpsk,
            Modulation::Cck5,
            Modulation::Cck11,
        ];
        let ofdm = [(2, 0), (2, 2), (4, 0), (4, 2), (16, 0), (16, 2), (64, 1), (64, 2)]
            .map(|(points, code)| Modulation::Ofdm { points, code });
        for family in [&dsss[..], &ofdm[..]] {
            for pair in family.windows(2) {
                assert!(midpoint(pair[0]) < midpoint(pair[1]), "{pair:?}");
            }
            for modulation in family {
                let mut last = 0.5;
                for db in -20..40 {
                    let rate = bit_error_rate(*modulation, libm::pow(10.0, f64::from(db) / 10.0));
                    assert!((0.0..=last).contains(&rate), "{modulation:?} at {db} dB: {rate}");
                    last = rate;
                }
            }
        }
        // Non-coherent FSK computed by hand: half of exp(-Eb/2N0), Eb/N0 = 13.35 dB gives 1e-5.
        let ratio = libm::pow(10.0, 1.335);
        assert!((bit_error_rate(Modulation::Gfsk, ratio) / 1e-5 - 1.0).abs() < 0.03);
        // Differential BPSK computed by hand: half of exp(-Eb/N0), Eb/N0 = 9.6 dB gives 5.4e-5.
        let ratio = libm::pow(10.0, 0.96) / 22.0;
        assert!((bit_error_rate(Modulation::Dbpsk, ratio) / 5.4e-5 - 1.0).abs() < 0.03);
        // 6 Mbit/s works at about 1 dB of SNR with hard decisions, 54 Mbit/s above 20 dB.
        assert!((-1.0..4.0).contains(&midpoint(ofdm[0])), "{}", midpoint(ofdm[0]));
        assert!((18.0..26.0).contains(&midpoint(ofdm[7])), "{}", midpoint(ofdm[7]));
    }

    #[test]
    fn error_path_probability_is_binomial() {
        // Distance 2 at p: p^2 and half of 2 p (1 - p).
        let p: f64 = 0.1;
        assert!((path_wins(2, p) - (p * p + p * (1.0 - p))).abs() < 1e-15);
        assert!((path_wins(5, 0.5) - 0.5).abs() < 1e-12);
    }
}
