//! Registries of parts: one line adds a part to scenario files, their schema, `whimbrel schemes` and the documentation.
//!
//! A part's file contains its parameters (a structure with defaults, units and ranges in its documentation) and the
//! rule itself. [`Part::build`] creates the state of one path from the parameters.

use core::fmt;
use std::sync::Arc;

/// Description of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartInfo {
    /// The name in scenario files.
    pub name: &'static str,
    /// Its function in one sentence.
    pub summary: &'static str,
    /// Its source.
    pub source: &'static str,
}

/// An invalid parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterError {
    /// Its name.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

impl ParameterError {
    /// Creates an error for this parameter.
    pub fn new(field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        ParameterError {
            field,
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.field, self.value, self.allowed)
    }
}

impl std::error::Error for ParameterError {}

/// Checks that a number lies in `low..=high`.
///
/// # Errors
/// Returns an error with the allowed values in `unit` if it does not.
pub fn in_range(field: &'static str, value: f64, low: f64, high: f64, unit: &str) -> Result<(), ParameterError> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        let space = if unit.is_empty() { "" } else { " " };
        Err(ParameterError::new(
            field,
            value,
            format!("allowed are {low} to {high}{space}{unit}"),
        ))
    }
}

/// The parameters of a part that builds a `T`.
pub trait Part<T: ?Sized> {
    /// Checks every parameter.
    ///
    /// # Errors
    /// Returns an error for the first invalid parameter.
    fn validate(&self) -> Result<(), ParameterError> {
        Ok(())
    }

    /// Builds the state of one path.
    fn build(&self, context: &BuildContext) -> Box<T>;
}

/// A part from outside of the registries: code of a user, for prototypes and embedding programs. Scenario files cannot name it.
pub struct Outside<T: ?Sized>(Arc<BuildOutside<T>>);

/// Builds the state of one path.
type BuildOutside<T> = dyn Fn(&BuildContext) -> Box<T> + Send + Sync;

impl<T: ?Sized> Outside<T> {
    /// Creates a part from a function that builds the state of one path.
    pub fn new(build: impl Fn(&BuildContext) -> Box<T> + Send + Sync + 'static) -> Self {
        Outside(Arc::new(build))
    }

    pub(crate) fn build(&self, context: &BuildContext) -> Box<T> {
        (self.0)(context)
    }
}

impl<T: ?Sized> Clone for Outside<T> {
    fn clone(&self) -> Self {
        Outside(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> PartialEq for Outside<T> {
    /// Two parts are equal if they are built by the same function.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl<T: ?Sized> fmt::Debug for Outside<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outside")
    }
}

/// Data from which parts are built besides their parameters.
#[derive(Clone, Debug, Default)]
pub struct BuildContext {
    /// The true causes of losses, available only in a simulation.
    pub truth: Option<Arc<dyn GroundTruth>>,
}

/// The true cause of a packet loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// A queue dropped the packet.
    Congestion,
    /// A transmission error, or the link was down.
    Transmission,
}

/// Source of the true causes of losses: a simulator's ledger. For oracles only.
pub trait GroundTruth: fmt::Debug + Send + Sync {
    /// Returns why the last packet with this label was lost, or `None` if it is not known to be lost.
    fn cause(&self, label: u32) -> Option<Cause>;

    /// Returns true with probability `p`, from its own stream of random numbers.
    fn chance(&self, p: f64) -> bool;
}

/// Defines a family of parts from one line per part: `Variant(file::Parameters) = "name", "summary", "source";`. The line
/// declares the module `file` beside the registry's file, exports the parameters, and adds a variant to the family's enumeration.
macro_rules! registry {
    (
        $(#[$meta:meta])*
        $spec:ident for dyn $part:ident, default $default:ident;
        $( $variant:ident($module:ident::$params:ident) = $name:literal, $summary:literal, $source:literal; )*
    ) => {
        $(
            mod $module;
            pub use $module::$params;
        )*

        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        #[cfg_attr(feature = "config", derive(serde::Serialize))]
        #[cfg_attr(feature = "config", serde(tag = "kind"))]
        pub enum $spec {
            $(
                #[doc = $summary]
                #[cfg_attr(feature = "config", serde(rename = $name))]
                $variant($module::$params),
            )*
            /// A part from outside of the registry. It cannot be written to a scenario file.
            #[cfg_attr(feature = "config", serde(skip))]
            Outside($crate::part::Outside<dyn $part>),
        }

        impl Default for $spec {
            fn default() -> Self {
                $spec::$default(Default::default())
            }
        }

        impl $spec {
            /// Every part of the family.
            pub const ALL: &[$crate::part::PartInfo] = &[
                $( $crate::part::PartInfo { name: $name, summary: $summary, source: $source }, )*
            ];

            /// Returns the part with this name and its default parameters.
            pub fn by_name(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some($spec::$variant(Default::default())), )*
                    _ => None,
                }
            }

            /// Returns its name.
            pub fn name(&self) -> &'static str {
                match self {
                    $( $spec::$variant(_) => $name, )*
                    $spec::Outside(_) => "outside",
                }
            }

            /// Checks its parameters.
            ///
            /// # Errors
            /// Returns an error for the first invalid parameter.
            pub fn validate(&self) -> Result<(), $crate::part::ParameterError> {
                match self {
                    $( $spec::$variant(parameters) => $crate::part::Part::<dyn $part>::validate(parameters), )*
                    $spec::Outside(_) => Ok(()),
                }
            }

            /// Builds the part, or returns `None` for the default one, the standard's.
            pub fn build_unless_default(&self, context: &$crate::part::BuildContext) -> Option<Box<dyn $part>> {
                (!matches!(self, $spec::$default(_))).then(|| self.build_boxed(context))
            }

            pub(crate) fn build_boxed(&self, context: &$crate::part::BuildContext) -> Box<dyn $part> {
                match self {
                    $( $spec::$variant(parameters) => $crate::part::Part::<dyn $part>::build(parameters, context), )*
                    $spec::Outside(part) => part.build(context),
                }
            }
        }

        #[cfg(feature = "config")]
        const _: () = {
            /// The same as a table with its name under `kind`.
            #[derive(serde::Deserialize, schemars::JsonSchema)]
            #[serde(tag = "kind")]
            enum Table {
                $( #[doc = $summary] #[serde(rename = $name)] $variant($module::$params), )*
            }

            impl<'de> serde::Deserialize<'de> for $spec {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    struct Visitor;

                    impl<'de> serde::de::Visitor<'de> for Visitor {
                        type Value = $spec;

                        fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                            f.write_str("a name or a table with its kind and parameters")
                        }

                        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<$spec, E> {
                            $spec::by_name(name).ok_or_else(|| E::unknown_variant(name, &[$($name),*]))
                        }

                        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$spec, A::Error> {
                            let table = <Table as serde::Deserialize>::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                            Ok(match table {
                                $( Table::$variant(parameters) => $spec::$variant(parameters), )*
                            })
                        }
                    }

                    deserializer.deserialize_any(Visitor)
                }
            }

            impl schemars::JsonSchema for $spec {
                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($spec).into()
                }

                fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    let table = Table::json_schema(generator);
                    schemars::json_schema!({
                        "description": "A name, or a table with its kind and parameters.",
                        "anyOf": [{ "type": "string", "enum": [$($name),*] }, table]
                    })
                }
            }
        };
    };
}

pub(crate) use registry;
