//! wire (being written).
