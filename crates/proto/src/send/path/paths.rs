//! The paths of an association, by their numbers.

use core::ops::{Deref, DerefMut, Index, IndexMut};

use super::Path;
use crate::PathId;

/// All paths of an association. A [`PathId`] is the place of its path.
#[derive(Debug)]
pub(crate) struct Paths(Vec<Path>);

impl Paths {
    pub(crate) fn new(paths: Vec<Path>) -> Self {
        Paths(paths)
    }

    /// Returns the number of each path.
    #[inline]
    pub(crate) fn ids(&self) -> impl ExactSizeIterator<Item = PathId> + Clone + use<> {
        (0..self.0.len()).map(PathId::at)
    }

    /// Returns each path with its number.
    #[inline]
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (PathId, &Path)> {
        self.ids().zip(&self.0)
    }

    /// Returns each path with its number.
    #[inline]
    pub(crate) fn numbered_mut(&mut self) -> impl Iterator<Item = (PathId, &mut Path)> {
        self.ids().zip(&mut self.0)
    }

    /// Returns the first path that fits.
    pub(crate) fn position(&self, fits: impl FnMut(&Path) -> bool) -> Option<PathId> {
        self.0.iter().position(fits).map(PathId::at)
    }

    #[inline]
    pub(crate) fn get(&self, path: PathId) -> Option<&Path> {
        self.0.get(path.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, path: PathId) -> Option<&mut Path> {
        self.0.get_mut(path.index())
    }

    /// Returns the path `step` places after another one, in turn.
    pub(crate) fn after(&self, path: PathId, step: usize) -> PathId {
        PathId::at((path.index() + step) % self.0.len().max(1))
    }

    /// Removes the paths that do not fit. Later paths get other numbers.
    pub(crate) fn retain(&mut self, fits: impl FnMut(&Path) -> bool) {
        self.0.retain(fits);
    }

    /// Adds a path. Returns its number.
    pub(crate) fn push(&mut self, path: Path) -> PathId {
        self.0.push(path);
        PathId::at(self.0.len() - 1)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl Index<PathId> for Paths {
    type Output = Path;

    #[inline]
    fn index(&self, path: PathId) -> &Path {
        &self.0[path.index()]
    }
}

impl IndexMut<PathId> for Paths {
    #[inline]
    fn index_mut(&mut self, path: PathId) -> &mut Path {
        &mut self.0[path.index()]
    }
}

impl Deref for Paths {
    type Target = [Path];

    #[inline]
    fn deref(&self) -> &[Path] {
        &self.0
    }
}

impl DerefMut for Paths {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Path] {
        &mut self.0
    }
}
