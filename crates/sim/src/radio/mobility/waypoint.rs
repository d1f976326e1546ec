//! Random waypoint, starting at a given position and at rest, or in the steady state (Navidi and Camp 2004).

use whimbrel_control::{Rng, Span, Time};

use super::{Leg, Point};

#[derive(Debug)]
pub(super) struct RandomWaypoint {
    area: [f64; 2],
    speed: [f64; 2],
    pause: Span,
    /// Whether the current leg is a movement, not a pause.
    moving: bool,
    random: Rng,
}

impl RandomWaypoint {
    /// Returns the model and its first leg.
    pub(super) fn new(
        area: [f64; 2],
        speed: [f64; 2],
        pause: Span,
        steady_state: bool,
        position: Point,
        random: Rng,
    ) -> (Self, Leg) {
        let mut model = RandomWaypoint {
            area,
            speed,
            pause,
            moving: false,
            random,
        };
        let leg = if steady_state {
            model.steady_leg()
        } else {
            Leg::stay(position, Time::ZERO, Time::ZERO + pause)
        };
        (model, leg)
    }

    pub(super) fn top_speed(&self) -> f64 {
        self.speed[1]
    }

    fn point(&mut self) -> Point {
        Point::new(self.random.unit() * self.area[0], self.random.unit() * self.area[1])
    }

    fn speed(&mut self) -> f64 {
        self.speed[0] + self.random.unit() * (self.speed[1] - self.speed[0])
    }

    /// Returns the next leg.
    pub(super) fn next(&mut self, last: &Leg) -> Leg {
        if self.moving && !self.pause.is_zero() {
            self.moving = false;
            return Leg::stay(last.to, last.end, last.end + self.pause);
        }
        self.moving = true;
        let to = self.point();
        let speed = self.speed();
        Leg::way(last.to, to, speed, last.end)
    }

    /// Returns the rest of a leg drawn from the steady state.
    fn steady_leg(&mut self) -> Leg {
        let [width, height] = self.area;
        let [low, high] = self.speed;
        // The mean duration of a movement: mean distance times mean of 1 / speed.
        let slowness = if high > low {
            libm::log(high / low) / (high - low)
        } else {
            1.0 / low
        };
        let travel = mean_distance(width, height) * slowness;
        let pause = self.pause.as_secs_f64();
        if self.random.unit() < pause / (pause + travel) {
            // The residual pause is uniformly distributed, and so is its position.
            let rest = Span::from_secs_f64(pause * self.random.unit());
            let at = self.point();
            self.moving = false;
            return Leg::stay(at, Time::ZERO, Time::ZERO + rest);
        }
        // Movements are observed in proportion to their length: drawn by rejection. The position on the path is uniform.
        let longest = libm::sqrt(width * width + height * height);
        let (from, to) = loop {
            let (a, b) = (self.point(), self.point());
            if self.random.unit() * longest < libm::sqrt(a.distance_squared(b)) {
                break (a, b);
            }
        };
        let share = self.random.unit();
        let at = Point::new(from.x + share * (to.x - from.x), from.y + share * (to.y - from.y));
        // Slow movements take longer: the density of the observed speed is proportional to 1 / speed.
        let speed = low * libm::pow(high / low, self.random.unit());
        self.moving = true;
        Leg::way(at, to, speed, Time::ZERO)
    }
}

/// Returns the mean distance between two uniformly random points of a rectangle (Ghosh 1951).
fn mean_distance(a: f64, b: f64) -> f64 {
    let d = libm::sqrt(a * a + b * b);
    let (a2, b2) = (a * a, b * b);
    let logs = b2 / a * libm::acosh(d / b) + a2 / b * libm::acosh(d / a);
    (a2 * a / b2 + b2 * b / a2 + d * (3.0 - a2 / b2 - b2 / a2)) / 15.0 + logs / 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_distances_are_known() {
        // The unit square: 0.521405.
        assert!((mean_distance(1.0, 1.0) - 0.521_405).abs() < 1e-6);
        assert!((mean_distance(1500.0, 300.0) - mean_distance(300.0, 1500.0)).abs() < 1e-9);
    }
}
