//! Where nodes are. Positions are worked out when somebody asks; a node that nobody hears costs nothing.

mod waypoint;

use whimbrel_control::{Rng, Time};

use self::waypoint::RandomWaypoint;
use crate::config::MobilityConfig;

/// A place in the plane, m.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

impl Point {
    pub(crate) const fn new(x: f64, y: f64) -> Self {
        Point { x, y }
    }

    /// The square of the distance to another point, m^2.
    #[inline]
    pub(crate) fn distance_squared(self, other: Point) -> f64 {
        let (dx, dy) = (self.x - other.x, self.y - other.y);
        dx * dx + dy * dy
    }
}

/// A straight way at constant speed, or a stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    /// Where it begins, and when.
    pub(crate) from: Point,
    pub(crate) start: Time,
    /// Metres per second in each direction.
    pub(crate) velocity: Point,
    /// Where it ends, and when.
    pub(crate) to: Point,
    pub(crate) end: Time,
}

impl Leg {
    /// A stay.
    pub(crate) fn stay(at: Point, start: Time, end: Time) -> Self {
        Leg {
            from: at,
            start,
            velocity: Point::default(),
            to: at,
            end,
        }
    }

    /// A way from one point to another.
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
}

impl Motion {
    /// The movement that a scenario asks for, from a position if it needs one.
    pub(crate) fn new(config: &MobilityConfig, position: Point, mut random: Rng) -> Self {
        let stay = |at| Leg::stay(at, Time::ZERO, Time::MAX);
        match config {
            MobilityConfig::Static => Motion {
                leg: stay(position),
                model: Model::Static,
            },
            MobilityConfig::RandomWaypoint {
                area,
                speed,
                pause,
                steady_state,
            } => {
                let mut model = RandomWaypoint {
                    area: *area,
                    speed: *speed,
                    pause: *pause,
                    moving: false,
                    random: Rng::stream(random.next_u64(), "waypoints"),
                };
                let leg = if *steady_state {
                    model.steady_leg()
                } else {
                    Leg::stay(position, Time::ZERO, Time::ZERO + *pause)
                };
                Motion {
                    leg,
                    model: Model::RandomWaypoint(Box::new(model)),
                }
            }
        }
    }

    /// The greatest speed it can have, m/s.
    pub(crate) fn top_speed(&self) -> f64 {
        match &self.model {
            Model::Static => 0.0,
            Model::RandomWaypoint(model) => model.speed[1],
        }
    }

    /// Where it is. Times must not go backwards.
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
            }
        }
        self.leg.at(now)
    }
}

#[cfg(test)]
mod tests;
