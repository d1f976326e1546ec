//! The event queue: what happens when, in an order that depends on nothing but the scenario and its seed.

mod queue;

pub(crate) use self::queue::{Event, EventQueue, Scheduled};
