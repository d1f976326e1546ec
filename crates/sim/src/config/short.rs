//! Short forms of tables: a number, a time or a name in place of a table with its `kind`.

use core::fmt;
use core::marker::PhantomData;
use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, MapAccess, Unexpected, Visitor};

/// A table with a `kind` that has a short form. What a value may be is text of the form `WHAT; such as EXAMPLE`, of which
/// scenarios show the example as a hint.
pub(crate) trait ShortForm: Sized + DeserializeOwned {
    /// What a value may be.
    const EXPECTED: &'static str;

    /// Returns the table that a number stands for. `given` is the number as it was written.
    fn from_number<E: de::Error>(number: f64, given: Unexpected<'_>) -> Result<Self, E>;

    /// Returns the table that a text stands for.
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E>;

    /// Returns the table with the values that depend on other absent ones.
    fn completed(self) -> Self {
        self
    }

    /// Returns the schema of the short form.
    fn short_schema() -> Schema;
}

/// A table or its short form.
#[derive(Debug)]
pub(crate) struct ShortOr<T>(pub(crate) T);

struct ShortVisitor<T>(PhantomData<T>);

impl<'de, T: ShortForm> Visitor<'de> for ShortVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        T::from_number(number as f64, Unexpected::Signed(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::from_number(number as f64, Unexpected::Unsigned(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        T::from_number(number, Unexpected::Float(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(T::completed)
    }
}

impl<'de, T: ShortForm> Deserialize<'de> for ShortOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShortVisitor(PhantomData)).map(ShortOr)
    }
}

impl<T: ShortForm + JsonSchema> JsonSchema for ShortOr<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ShortOr_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [T::short_schema(), table] })
    }
}

/// Reads a table or its short form.
pub(crate) fn short<'de, T: ShortForm, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    ShortOr::deserialize(deserializer).map(|ShortOr(table)| table)
}

/// Reads a table or its short form, if there is a value.
pub(crate) fn optional<'de, T: ShortForm, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let table = Option::<ShortOr<T>>::deserialize(deserializer)?;
    Ok(table.map(|ShortOr(table)| table))
}

/// Returns the error for a text that is no short form. `examples` has a table for each kind, of which the one meant is shown, else
/// `otherwise`.
pub(crate) fn no_short_form<E: de::Error>(text: &str, what: &str, examples: &[(&str, &str)], otherwise: &str) -> E {
    let kind = super::nearest(text, examples.iter().map(|(kind, _)| *kind));
    let example = examples.iter().find(|(name, _)| Some(*name) == kind);
    let example = example.map_or(otherwise, |(_, example)| example);
    E::invalid_value(Unexpected::Str(text), &format!("{what}; such as {example}").as_str())
}
