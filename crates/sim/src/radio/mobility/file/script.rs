//! Scripts for ns-2: `$node_(3) set X_ 12.5`, `$ns_ at 7.5 "$node_(3) setdest 30.0 40.0 1.5"`, `$ns_ at 9.0 "$node_(3) set X_ 5.0"`.

use std::collections::BTreeMap;

use whimbrel_control::Time;

use super::movements::{HEIGHTS, MovementError, Movements, fail, number, time};
use crate::radio::mobility::{Leg, Point};
use crate::text_file::without_comment;

/// The commands of a script; there are no others.
const COMMANDS: &str =
    "not a command of a movement script: $node_(N) set X_ V, or $ns_ at T \"$node_(N) setdest X Y SPEED\"";

/// A command with a time.
#[derive(Clone, Copy, Debug)]
struct Order {
    at: Time,
    line: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Move to this point at this speed in metres per second; stop if it is 0.
    Move(Point, f64),
    /// Be at this coordinate.
    Jump(Axis, f64),
}

#[derive(Clone, Copy, Debug)]
enum Axis {
    X,
    Y,
    Z,
}

/// A node of the script.
#[derive(Debug, Default)]
struct Node {
    start: Point,
    orders: Vec<Order>,
}

/// What has been read.
#[derive(Debug, Default)]
struct Script {
    nodes: BTreeMap<u32, Node>,
    /// The first height, which all nodes have.
    height: Option<f64>,
}

/// Parses a script. Commands to ns-2's `god` and the definitions of variables move no node and are ignored.
pub(super) fn parse(text: &str) -> Result<Movements, MovementError> {
    let mut script = Script::default();
    for (line, content) in (1..).zip(text.lines()) {
        for command in commands(without_comment(content)) {
            let words: Vec<&str> = command.split_whitespace().collect();
            script.command(&words, line)?;
        }
    }
    if script.nodes.is_empty() {
        return Err(fail(1, "no node"));
    }
    let mut movements = Movements::default();
    for (number, mut node) in script.nodes {
        node.orders.sort_by_key(|order| order.at);
        movements.nodes.insert(number, legs(node.start, &node.orders)?);
    }
    Ok(movements)
}

/// Returns the commands in a line: semicolons separate them, except in quotes.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    line.split(move |c| {
        is_quoted ^= c == '"';
        c == ';' && !is_quoted
    })
}

impl Script {
    fn command(&mut self, words: &[&str], line: usize) -> Result<(), MovementError> {
        match *words {
            [] | ["set", ..] | ["$god_", ..] => Ok(()),
            [node, "set", axis, value] => {
                let (node, axis) = (node_number(node, line)?, axis_of(axis, line)?);
                let value = self.coordinate(axis, value, line)?;
                put(&mut self.nodes.entry(node).or_default().start, axis, value);
                Ok(())
            }
            [_, "at", at, ref quoted @ ..] => {
                let order = quoted.join(" ");
                let inner = order.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let at = time(at, line)?;
                for command in inner.unwrap_or(&order).split(';') {
                    let words: Vec<&str> = command.split_whitespace().collect();
                    self.order(at, &words, line)?;
                }
                Ok(())
            }
            _ => Err(fail(line, COMMANDS)),
        }
    }

    /// Adds a command with a time.
    fn order(&mut self, at: Time, words: &[&str], line: usize) -> Result<(), MovementError> {
        let (node, what) = match *words {
            [] | ["$god_", ..] => return Ok(()),
            [node, "setdest", x, y, speed] => {
                let (to, speed) = (Point::new(number(x, line)?, number(y, line)?), number(speed, line)?);
                if speed < 0.0 {
                    return Err(fail(line, "the speed is below 0"));
                }
                (node, What::Move(to, speed))
            }
            [node, "set", axis, value] => {
                let axis = axis_of(axis, line)?;
                (node, What::Jump(axis, self.coordinate(axis, value, line)?))
            }
            _ => return Err(fail(line, COMMANDS)),
        };
        let node = node_number(node, line)?;
        let orders = &mut self.nodes.entry(node).or_default().orders;
        orders.push(Order { at, line, what });
        Ok(())
    }

    /// Returns a coordinate. All heights must be the same, as the distance between nodes is that in the plane.
    fn coordinate(&mut self, axis: Axis, value: &str, line: usize) -> Result<f64, MovementError> {
        let value = number(value, line)?;
        if matches!(axis, Axis::Z) && *self.height.get_or_insert(value) != value {
            return Err(fail(line, HEIGHTS));
        }
        Ok(value)
    }
}

fn node_number(word: &str, line: usize) -> Result<u32, MovementError> {
    let number = word.strip_prefix("$node_(").and_then(|rest| rest.strip_suffix(')'));
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| fail(line, COMMANDS))
}

fn axis_of(word: &str, line: usize) -> Result<Axis, MovementError> {
    match word {
        "X_" => Ok(Axis::X),
        "Y_" => Ok(Axis::Y),
        "Z_" => Ok(Axis::Z),
        _ => Err(fail(line, COMMANDS)),
    }
}

fn put(place: &mut Point, axis: Axis, value: f64) {
    match axis {
        Axis::X => place.x = value,
        Axis::Y => place.y = value,
        Axis::Z => {}
    }
}

/// Returns the legs of a list of commands: each ends at its destination, or at the next command.
fn legs(start: Point, orders: &[Order]) -> Result<Vec<Leg>, MovementError> {
    let mut legs = vec![Leg::stay(start, Time::ZERO, Time::ZERO)];
    let (mut here, mut now) = (start, Time::ZERO);
    for (i, order) in orders.iter().enumerate() {
        if order.at > now {
            legs.push(Leg::stay(here, now, order.at));
            now = order.at;
        }
        match order.what {
            // With speed 0 the node stops.
            What::Move(to, speed) if speed > 0.0 => {
                let until = orders.get(i + 1).map_or(Time::MAX, |next| next.at);
                let way = Leg::way(here, to, speed, now);
                let is_arrived = way.end <= until;
                let leg = way.cut(until);
                let next = orders.get(i + 1).filter(|next| matches!(next.what, What::Jump(..)));
                if let Some(next) = next.filter(|_| !is_arrived) {
                    return Err(fail(next.line, "the node is moved to another place while it moves"));
                }
                (here, now) = (leg.to, leg.end);
                legs.push(leg);
            }
            What::Move(..) => {}
            What::Jump(axis, value) => {
                put(&mut here, axis, value);
                legs.push(Leg::stay(here, now, now));
            }
        }
    }
    Ok(legs)
}
