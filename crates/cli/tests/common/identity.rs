//! Peers in the process of a test that have the identity of the commands, which therefore trust them.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use whimbrel::{ProtectionConfig, StackConfig};
use whimbrel_secure::{TlsIdentity, TlsKeys, Trust};

/// Returns the configuration with encryption, as the commands have it by default.
pub(crate) fn encrypted(mut config: StackConfig) -> StackConfig {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    let text = IDENTITY.get_or_init(|| {
        let made = Command::new(env!("CARGO_BIN_EXE_whimbrel"))
            .args(["keygen", "--json"])
            .output()
            .expect("it runs");
        let made: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
        let file = made["file"].as_str().expect("a file");
        std::fs::read_to_string(Path::new(file)).expect("an identity")
    });
    let identity = TlsIdentity::from_pem(text, text).expect("an identity");
    let keys = TlsKeys::new(identity, Trust::Anyone).expect("usable");
    config.association.protection = ProtectionConfig::required(Arc::new(keys));
    config
}
