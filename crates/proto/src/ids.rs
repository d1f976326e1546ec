//! Identifiers of associations and paths.

use core::fmt;

/// Identifies an association of an endpoint. An identifier is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssocId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl core::fmt::Display for AssocId {
    /// Writes a short name that no other association of the endpoint has: `0`, or `0.2` if the place has been used before.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.index)?;
        if self.generation > 0 {
            write!(f, ".{}", self.generation)?;
        }
        Ok(())
    }
}

#[cfg(test)]
impl AssocId {
    /// An identifier for tests of a single association.
    pub(crate) const ANY: AssocId = AssocId {
        index: 0,
        generation: 0,
    };
}

/// Names a path of an association. Paths keep their numbers as long as the association lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub u8);

impl PathId {
    /// Returns its place in a list of all paths.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the path at a place in a list of all paths. An association has far fewer than 256; a larger number, which a
    /// part may return, is that of no path.
    #[inline]
    pub(crate) const fn at(place: usize) -> Self {
        PathId(if place < u8::MAX as usize { place as u8 } else { u8::MAX })
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
