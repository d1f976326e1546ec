//! Several sources of keys, offered together.

use core::fmt;
use std::sync::Arc;

use super::{HandshakeError, KeyExchange, KeyHandshake, KeySource, Protect, ProtectionError, Role};

/// Several sources of keys: their methods are offered together, and the ends agree on one of them.
#[derive(Clone)]
pub struct KeySources {
    sources: Vec<Arc<dyn KeySource>>,
    methods: Vec<u8>,
}

impl KeySources {
    /// Combines these sources, the most preferred first. A method that several of them have is that of the first one.
    pub fn new(sources: impl IntoIterator<Item = Arc<dyn KeySource>>) -> Self {
        let sources: Vec<_> = sources.into_iter().collect();
        let mut methods = Vec::new();
        for &method in sources.iter().flat_map(|source| source.methods()) {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        KeySources { sources, methods }
    }

    fn of(&self, method: u8) -> Option<&Arc<dyn KeySource>> {
        self.sources.iter().find(|source| source.methods().contains(&method))
    }
}

/// Shows the methods.
impl fmt::Debug for KeySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySources({:?})", self.methods)
    }
}

impl KeySource for KeySources {
    fn methods(&self) -> &[u8] {
        &self.methods
    }

    fn derive(&self, exchange: &KeyExchange, sender: Role, epoch: u64) -> Result<Arc<dyn Protect>, ProtectionError> {
        let source = self.of(exchange.method()).ok_or(ProtectionError)?;
        source.derive(exchange, sender, epoch)
    }

    fn has_messages(&self, method: u8) -> bool {
        self.of(method).is_some_and(|source| source.has_messages(method))
    }

    fn begin(&self, exchange: &KeyExchange, role: Role) -> Result<Box<dyn KeyHandshake>, HandshakeError> {
        let source = self.of(exchange.method());
        source
            .ok_or_else(|| HandshakeError::new("there is no source of keys for this method"))?
            .begin(exchange, role)
    }

    fn is_first(&self, method: u8, message: &[u8]) -> bool {
        self.of(method).is_some_and(|source| source.is_first(method, message))
    }
}
