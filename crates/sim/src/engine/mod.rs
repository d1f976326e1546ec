//! The event queue: an order of events that depends only on the scenario and its seed.

mod queue;

pub(crate) use self::queue::{Event, EventQueue, Scheduled};
