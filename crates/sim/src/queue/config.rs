//! Queues as they are written in a scenario.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// The queue in front of a link's transmitter. The packet being transmitted no longer counts as queued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueConfig {
    /// First in, first out; a packet that finds no room is dropped. At least one of the limits is given; both may be.
    DropTail {
        /// The most packets that may wait, 1 to 10 000 000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 10_000_000))]
        packets: Option<u32>,
        /// The most bytes (of IP packets) that may wait, 1 or more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        bytes: Option<u64>,
    },
}

impl Default for QueueConfig {
    /// Drop-tail with room for 100 packets.
    fn default() -> Self {
        QueueConfig::DropTail {
            packets: Some(100),
            bytes: None,
        }
    }
}

impl QueueConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let QueueConfig::DropTail { packets, bytes } = self;
        if let Some(n) = packets.filter(|n| !(1..=10_000_000).contains(n)) {
            return Err(ConfigError::new("packets", n, "1 to 10000000 packets"));
        }
        if *bytes == Some(0) {
            return Err(ConfigError::new("bytes", 0, "1 byte or more"));
        }
        if packets.is_none() && bytes.is_none() {
            return Err(
                ConfigError::new("", "{ kind = \"drop-tail\" }", "a limit in packets, in bytes, or both")
                    .hint("packets = 100"),
            );
        }
        Ok(())
    }
}
