//! Gauss-Markov movement (Liang and Haas 1999, in the form of Camp, Boleng and Davies 2002): speed and direction are
//! autocorrelated.

use core::f64::consts::PI;

use whimbrel_control::{Rng, Span};

use super::{Leg, Point, normal};

#[derive(Debug)]
pub(super) struct GaussMarkov {
    pub(super) area: [f64; 2],
    pub(super) mean_speed: f64,
    pub(super) max_speed: f64,
    pub(super) memory: f64,
    pub(super) speed_deviation: f64,
    pub(super) direction_deviation: f64,
    pub(super) interval: Span,
    /// Speed in m/s, direction and mean direction in radians.
    pub(super) speed: f64,
    pub(super) direction: f64,
    pub(super) mean_direction: f64,
    pub(super) random: Rng,
}

impl GaussMarkov {
    /// Returns the next leg: a step of constant speed and direction.
    pub(super) fn next(&mut self, last: &Leg) -> Leg {
        let a = self.memory;
        let spread = libm::sqrt(1.0 - a * a);
        self.mean_direction = self.homeward(last.to);
        let speed =
            a * self.speed + (1.0 - a) * self.mean_speed + spread * self.speed_deviation * normal(&mut self.random);
        self.speed = speed.clamp(0.0, self.max_speed);
        // The shorter rotation to the mean.
        let turn = libm::remainder(self.mean_direction - self.direction, 2.0 * PI);
        self.direction += (1.0 - a) * turn + spread * self.direction_deviation * normal(&mut self.random);
        let seconds = self.interval.as_secs_f64();
        let aim = |from: f64, part: f64, side: f64| (from + self.speed * part * seconds).clamp(0.0, side);
        let to = Point::new(
            aim(last.to.x, libm::cos(self.direction), self.area[0]),
            aim(last.to.y, libm::sin(self.direction), self.area[1]),
        );
        Leg::between(last.to, to, last.end, last.end + self.interval)
    }

    /// Returns the mean direction: towards the inside near an edge, otherwise unchanged.
    fn homeward(&self, at: Point) -> f64 {
        let side = |x: f64, length: f64| {
            let margin = 0.1 * length;
            f64::from(i8::from(x < margin) - i8::from(x > length - margin))
        };
        let (x, y) = (side(at.x, self.area[0]), side(at.y, self.area[1]));
        if x == 0.0 && y == 0.0 {
            self.mean_direction
        } else {
            libm::atan2(y, x)
        }
    }
}
