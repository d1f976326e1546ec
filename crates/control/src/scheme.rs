//! Schemes: named bundles of parts. A scenario names one, changes single parts of it, or builds its own.

use core::fmt;

use crate::discriminator::DiscriminatorSpec;
use crate::recovery::Recovery;
use crate::window::WindowSpec;

/// What a scheme decides, with everything that can be mixed. The default is standard SCTP.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SchemeParts {
    /// Did a loss mean congestion?
    pub discriminator: DiscriminatorSpec,
    /// How much may be in flight?
    pub window: WindowSpec,
    /// What is sent again, when, with which timer?
    pub recovery: Recovery,
    /// Explicit congestion notification.
    pub ecn: bool,
    /// ECN with CWR, as in RFC 4960 appendix A.
    pub ecn_cwr: bool,
    /// The receiver echoes the congestion that routers indicate on every packet (ECI, congestion warning).
    pub eci: bool,
    /// Packets carry the time at which they were sent, and acknowledgements bring it back with the time of arrival.
    pub timestamps: bool,
    /// Packets are spread over the round-trip time.
    pub pacing: bool,
}

/// A named bundle of parts.
#[derive(Clone, Copy)]
pub struct Scheme(&'static Entry);

struct Entry {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    parts: fn() -> SchemeParts,
}

/// The register: a line for each scheme.
static SCHEMES: &[Entry] = &[
    Entry {
        name: "standard",
        summary: "Every loss is congestion.",
        source: "RFC 9260 §7",
        parts: SchemeParts::default,
    },
    Entry {
        name: "ecn",
        summary: "Routers mark instead of dropping; one ECNE for each marked packet, no CWR.",
        source: "Ye 2004, 4.4",
        parts: || SchemeParts {
            ecn: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "ecn-cwr",
        summary: "Routers mark instead of dropping; ECNE with each SACK until CWR answers.",
        source: "RFC 4960 appendix A",
        parts: || SchemeParts {
            ecn: true,
            ecn_cwr: true,
            ..SchemeParts::default()
        },
    },
];

impl Scheme {
    /// Every scheme, in the order of the register.
    pub fn all() -> impl Iterator<Item = Scheme> {
        SCHEMES.iter().map(Scheme)
    }

    /// The scheme with this name.
    pub fn by_name(name: &str) -> Option<Scheme> {
        Scheme::all().find(|scheme| scheme.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What it does, in a sentence.
    pub fn summary(self) -> &'static str {
        self.0.summary
    }

    /// Where it comes from.
    pub fn source(self) -> &'static str {
        self.0.source
    }

    /// Its parts.
    pub fn parts(self) -> SchemeParts {
        (self.0.parts)()
    }
}

impl Default for Scheme {
    fn default() -> Self {
        Scheme(&SCHEMES[0])
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Scheme {}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(feature = "config")]
mod config {
    use std::borrow::Cow;
    use std::sync::LazyLock;

    use serde::de::{self, Deserialize, Deserializer, Visitor};
    use serde::ser::{Serialize, Serializer};

    use super::Scheme;

    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| Scheme::all().map(Scheme::name).collect());

    impl Serialize for Scheme {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(self.name())
        }
    }

    impl<'de> Deserialize<'de> for Scheme {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Name;

            impl Visitor<'_> for Name {
                type Value = Scheme;

                fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                    f.write_str("the name of a scheme")
                }

                fn visit_str<E: de::Error>(self, name: &str) -> Result<Scheme, E> {
                    Scheme::by_name(name).ok_or_else(|| E::unknown_variant(name, NAMES.as_slice()))
                }
            }

            deserializer.deserialize_str(Name)
        }
    }

    impl schemars::JsonSchema for Scheme {
        fn schema_name() -> Cow<'static, str> {
            "Scheme".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!({ "type": "string", "enum": NAMES.as_slice() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_bundle_holds_together() {
        let mut names: Vec<_> = Scheme::all().map(Scheme::name).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
        for scheme in Scheme::all() {
            let parts = scheme.parts();
            assert_eq!(parts.discriminator.validate(), Ok(()), "{scheme}");
            assert_eq!(parts.window.validate(), Ok(()), "{scheme}");
            assert!(parts.ecn || !parts.ecn_cwr, "{scheme}");
            assert_eq!(Scheme::by_name(scheme.name()), Some(scheme));
        }
        assert_eq!(Scheme::default().parts(), SchemeParts::default());
    }
}
