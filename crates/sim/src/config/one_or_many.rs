//! A list that may be written as a single value.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::short::{ShortForm, ShortOr};

/// A list. In a file it may also be a single item; each item may have its short form.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        OneOrMany(Vec::new())
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> From<T> for OneOrMany<T> {
    fn from(value: T) -> Self {
        OneOrMany(vec![value])
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: ShortForm> Visitor<'de> for ListVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        one(MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        let items = Vec::<ShortOr<T>>::deserialize(SeqAccessDeserializer::new(seq))?;
        Ok(OneOrMany(items.into_iter().map(|ShortOr(item)| item).collect()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        one(number.into_deserializer())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        one(number.into_deserializer())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        one(number.into_deserializer())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        one(text.into_deserializer())
    }
}

/// Reads a list of one item.
fn one<'de, T: ShortForm, D: Deserializer<'de>>(item: D) -> Result<OneOrMany<T>, D::Error> {
    ShortOr::deserialize(item).map(|ShortOr(item)| OneOrMany(vec![item]))
}

impl<'de, T: ShortForm> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl<T: ShortForm + JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<ShortOr<T>>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}
