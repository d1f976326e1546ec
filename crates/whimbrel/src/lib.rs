//! whimbrel (being written).
