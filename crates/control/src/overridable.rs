//! Bundles of options of which a scenario may change single ones.

/// Defines a structure of values and a structure of overrides, in which each value may be absent.
macro_rules! overridable {
    (
        $(#[$meta:meta])*
        $name:ident, $(#[$over_meta:meta])* $over:ident {
            $( $(#[$field_meta:meta])* $field:ident: $kind:ty = $default:expr, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $kind, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $default, )* }
            }
        }

        $(#[$over_meta])*
        #[derive(Clone, Copy, PartialEq, Debug, Default)]
        #[cfg_attr(
            feature = "config",
            derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
            serde(default, deny_unknown_fields)
        )]
        pub struct $over {
            $(
                $(#[$field_meta])*
                #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
                pub $field: Option<$kind>,
            )*
        }

        impl $over {
            /// Returns these values where they are present, and those of `base` otherwise.
            #[must_use]
            pub fn over(&self, base: $name) -> $name {
                $name { $( $field: self.$field.unwrap_or(base.$field), )* }
            }

            /// Returns the overrides that change the default into `wanted`.
            #[must_use]
            pub fn between(wanted: &$name) -> Self {
                let default = $name::default();
                $over { $( $field: (wanted.$field != default.$field).then_some(wanted.$field), )* }
            }
        }

        /// Written as what differs from the default.
        #[cfg(feature = "config")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&$over::between(self), serializer)
            }
        }
    };
}

pub(crate) use overridable;
