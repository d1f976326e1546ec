//! Positions of nodes. They are computed on request, so a node without receivers in range costs nothing.

mod file;
mod gauss_markov;
mod manhattan;
mod waypoint;

use std::sync::Arc;

use whimbrel_control::{Rng, Time};

pub use self::file::{MovementError, Movements};
use self::gauss_markov::GaussMarkov;
use self::manhattan::Manhattan;
use self::waypoint::RandomWaypoint;
use crate::config::MobilityConfig;

/// A point in the plane, m.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

impl Point {
    pub(crate) const fn new(x: f64, y: f64) -> Self {
        Point { x, y }
    }

    /// Returns the square of the distance to another point, m^2.
    #[inline]
    pub(crate) fn distance_squared(self, other: Point) -> f64 {
        let (dx, dy) = (self.x - other.x, self.y - other.y);
        dx * dx + dy * dy
    }
}

/// A straight movement at constant speed, or a stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    /// Start position and time.
    pub(crate) from: Point,
    pub(crate) start: Time,
    /// Metres per second in each direction.
    pub(crate) velocity: Point,
    /// End position and time.
    pub(crate) to: Point,
    pub(crate) end: Time,
}

impl Leg {
    /// Creates a stay.
    pub(crate) fn stay(at: Point, start: Time, end: Time) -> Self {
        Leg {
            from: at,
            start,
            velocity: Point::default(),
            to: at,
            end,
        }
    }

    /// Creates a movement between two points at this speed.
    pub(crate) fn way(from: Point, to: Point, speed: f64, start: Time) -> Self {
        let length = libm::sqrt(from.distance_squared(to));
        if length == 0.0 {
            return Leg::stay(from, start, start);
        }
        let end = start + whimbrel_control::Span::from_secs_f64(length / speed);
        let share = speed / length;
        Leg {
            from,
            start,
            velocity: Point::new((to.x - from.x) * share, (to.y - from.y) * share),
            to,
            end,
        }
    }

    /// Creates a movement between two points in this time.
    pub(crate) fn between(from: Point, to: Point, start: Time, end: Time) -> Self {
        let seconds = end.since(start).as_secs_f64();
        if seconds == 0.0 {
            return Leg::stay(to, start, end);
        }
        Leg {
            from,
            start,
            velocity: Point::new((to.x - from.x) / seconds, (to.y - from.y) / seconds),
            to,
            end,
        }
    }

    /// Returns the part of the leg up to a time.
    pub(crate) fn cut(mut self, end: Time) -> Self {
        if end < self.end {
            self.to = self.at(end);
            self.end = end;
        }
        self
    }

    fn at(&self, now: Time) -> Point {
        if now >= self.end {
            return self.to;
        }
        let t = now.since(self.start).as_secs_f64();
        Point::new(self.from.x + self.velocity.x * t, self.from.y + self.velocity.y * t)
    }
}

/// The movement of a node.
#[derive(Debug)]
pub(crate) struct Motion {
    leg: Leg,
    model: Model,
}

#[derive(Debug)]
enum Model {
    Static,
    RandomWaypoint(Box<RandomWaypoint>),
    GaussMarkov(Box<GaussMarkov>),
    Manhattan(Box<Manhattan>),
    /// The movements of a file, the node's number in it, and the index of the next leg.
    File(Arc<Movements>, u32, usize),
}

impl Motion {
    /// Creates the movement that a scenario describes, from a position if the model needs one.
    pub(crate) fn new(
        config: &MobilityConfig,
        position: Point,
        random: Rng,
        movements: Option<Arc<Movements>>,
    ) -> Self {
        let begin = |at| Leg::stay(at, Time::ZERO, Time::ZERO);
        let (leg, model) = match config {
            MobilityConfig::Static {} => (Leg::stay(position, Time::ZERO, Time::MAX), Model::Static),
            MobilityConfig::RandomWaypoint {
                area,
                speed,
                pause,
                steady_state,
            } => {
                let (model, leg) = RandomWaypoint::new(*area, *speed, *pause, *steady_state, position, random);
                (leg, Model::RandomWaypoint(Box::new(model)))
            }
            MobilityConfig::GaussMarkov {
                area,
                mean_speed,
                max_speed,
                memory,
                speed_deviation,
                direction_deviation,
                interval,
            } => {
                let mut random = random;
                let direction = 2.0 * core::f64::consts::PI * random.unit();
                let model = GaussMarkov {
                    area: *area,
                    mean_speed: *mean_speed,
                    max_speed: *max_speed,
                    memory: *memory,
                    speed_deviation: *speed_deviation,
                    direction_deviation: *direction_deviation,
                    interval: *interval,
                    speed: *mean_speed,
                    direction,
                    mean_direction: direction,
                    random,
                };
                (begin(position), Model::GaussMarkov(Box::new(model)))
            }
            MobilityConfig::Manhattan {
                blocks,
                block,
                speed,
                turn,
            } => {
                let mut random = random;
                let model = Manhattan {
                    blocks: *blocks,
                    block: *block,
                    speed: *speed,
                    turn: *turn,
                    crossing: Manhattan::nearest(*blocks, *block, position),
                    heading: random.below(4) as u8,
                    random,
                };
                let place = model.place(model.crossing);
                (begin(place), Model::Manhattan(Box::new(model)))
            }
            MobilityConfig::File { node, .. } => {
                let movements = movements.unwrap_or_default();
                (begin(position), Model::File(movements, *node, 0))
            }
        };
        Motion { leg, model }
    }

    /// Returns the highest possible speed, m/s.
    pub(crate) fn top_speed(&self) -> f64 {
        match &self.model {
            Model::Static => 0.0,
            Model::RandomWaypoint(model) => model.top_speed(),
            Model::GaussMarkov(model) => model.max_speed,
            Model::Manhattan(model) => model.speed[1],
            Model::File(movements, ..) => movements.top_speed,
        }
    }

    /// Returns the position. Times must not decrease.
    #[inline]
    pub(crate) fn at(&mut self, now: Time) -> Point {
        if now < self.leg.end {
            return self.leg.at(now);
        }
        self.advance(now)
    }

    #[cold]
    fn advance(&mut self, now: Time) -> Point {
        while now >= self.leg.end {
            match &mut self.model {
                Model::Static => return self.leg.to,
                Model::RandomWaypoint(model) => self.leg = model.next(&self.leg),
                Model::GaussMarkov(model) => self.leg = model.next(&self.leg),
                Model::Manhattan(model) => self.leg = model.next(&self.leg),
                Model::File(movements, node, place) => {
                    let next = movements.nodes.get(node).and_then(|legs| legs.get(*place));
                    *place += 1;
                    // After the last leg the node stays.
                    self.leg = next.copied().unwrap_or(Leg::stay(self.leg.to, self.leg.end, Time::MAX));
                }
            }
        }
        self.leg.at(now)
    }
}

/// Returns a normally distributed number with mean 0 and deviation 1.
fn normal(random: &mut Rng) -> f64 {
    super::propagation::normal_pair(random).0
}

#[cfg(test)]
mod tests;
