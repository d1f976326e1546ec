//! The sizes of buffers that grow, and the memory from which they grow. `buffers.rs` and `send/buffer.rs` decide how large
//! they are.

use whimbrel_control::Time;

use crate::config::AssociationConfig;

/// Memory by which the buffers of all associations of an endpoint may grow.
#[derive(Debug)]
pub(crate) struct BufferPool {
    limit: u64,
    granted: u64,
}

impl BufferPool {
    pub(crate) fn new(limit: u64) -> Self {
        BufferPool { limit, granted: 0 }
    }

    /// Returns the bytes granted and not returned.
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Grants up to `wanted` bytes, but at most half of the remaining memory, so that other associations get some.
    fn take(&mut self, wanted: u64) -> u64 {
        let granted = wanted.min(self.limit.saturating_sub(self.granted) / 2);
        self.granted += granted;
        granted
    }

    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.granted = self.granted.saturating_sub(bytes);
    }
}

/// The size of the receive buffer, and the measurement of delivered data.
#[derive(Debug)]
pub(super) struct Tuning {
    pub(super) recv_buffer: u32,
    /// When the current measurement began, and the bytes delivered until then.
    pub(super) since: Time,
    pub(super) delivered: u64,
    /// When a heartbeat was last requested, and the bytes delivered until then.
    pub(super) requested: Option<(Time, u64)>,
}

impl Tuning {
    pub(super) fn new(config: &AssociationConfig) -> Option<Box<Self>> {
        let grows = config.recv_buffer_max.is_some_and(|max| max > config.recv_buffer)
            || config.send_buffer_max.is_some_and(|max| max > config.send_buffer);
        grows.then(|| {
            Box::new(Tuning {
                recv_buffer: config.recv_buffer,
                since: Time::ZERO,
                delivered: 0,
                requested: None,
            })
        })
    }
}

/// Returns the new size of a buffer whose desired size is `wanted` bytes, if it should grow.
pub(crate) fn grow(pool: &mut BufferPool, now: u32, wanted: u64, max: Option<u32>) -> Option<u32> {
    let wanted = wanted.min(max.unwrap_or(0).into());
    let more = wanted.saturating_sub(now.into());
    // Steps below an eighth of the size are skipped.
    if more < u64::from(now / 8) {
        return None;
    }
    let granted = pool.take(more) as u32;
    (granted > 0).then_some(now + granted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_grants_no_more_than_its_limit_and_leaves_some_to_others() {
        let mut pool = BufferPool::new(1000);
        assert_eq!(pool.take(300), 300);
        assert_eq!(pool.take(700), 350, "half of the rest");
        (0..100).for_each(|_| {
            pool.take(1000);
        });
        assert!(pool.granted() <= 1000);
        pool.give_back(650);
        assert!(pool.take(100) == 100 && pool.granted() <= 1000);
    }

    #[test]
    fn a_buffer_grows_to_its_maximum_in_steps_of_an_eighth() {
        let mut pool = BufferPool::new(1 << 40);
        assert_eq!(grow(&mut pool, 800, 899, Some(10_000)), None);
        assert_eq!(grow(&mut pool, 800, 900, Some(10_000)), Some(900));
        assert_eq!(grow(&mut pool, 800, 20_000, Some(10_000)), Some(10_000));
        assert_eq!(grow(&mut pool, 800, 20_000, None), None);
        assert_eq!(pool.granted(), 100 + 9200);
    }
}
