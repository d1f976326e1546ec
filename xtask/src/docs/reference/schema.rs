//! The JSON schema of scenarios, as far as the reference shows it: tables, their fields, and the types of these.

use serde_json::Value as Json;

/// The schema of scenario files.
pub(crate) struct Schema(Json);

/// A type, with the names of its definitions in the schema.
pub(crate) enum Type<'s> {
    /// A length of time with unit.
    Time,
    /// A data rate with unit.
    Rate,
    /// The name of a scheme.
    Scheme(Vec<&'s str>),
    /// The name of a part, or a table with its parameters.
    Part { slot: String, names: Vec<&'s str> },
    /// One of a few words.
    Words(&'s str, Vec<Word<'s>>),
    /// A table with fixed fields.
    Table(&'s str),
    /// A table whose fields follow from its `kind`; `named` if the name of a kind may stand for the table.
    Kinds { name: &'s str, named: bool },
    /// A table, or a short form of it with this schema: a number, a time or a name.
    ShortOr(&'s Json, Box<Type<'s>>),
    /// Items; a fixed number of them or any.
    List(Box<Type<'s>>, Option<u64>),
    /// One item, or a list of them.
    OneOrMany(Box<Type<'s>>),
    /// A table of lists with any keys.
    Lists(&'s str),
    /// A number, a text or a switch, with the limits that the schema has.
    Plain(&'s Json),
}

/// A word and its meaning.
pub(crate) struct Word<'s> {
    pub(crate) word: &'s str,
    pub(crate) meaning: &'s str,
}

/// A field of a table.
pub(crate) struct Field<'s> {
    pub(crate) name: &'s str,
    pub(crate) schema: &'s Json,
    pub(crate) required: bool,
}

/// A table with its fields, the required ones first. The root of the schema is a table without a name.
pub(crate) struct Table<'s> {
    /// The word in its field `kind`.
    pub(crate) kind: Option<&'s str>,
    pub(crate) description: &'s str,
    pub(crate) fields: Vec<Field<'s>>,
}

impl Schema {
    pub(crate) fn new(schema: Json) -> Self {
        Schema(schema)
    }

    /// Returns the definition with this name; the root has none.
    pub(crate) fn definition(&self, name: &str) -> &Json {
        if name.is_empty() {
            &self.0
        } else {
            &self.0["$defs"][name]
        }
    }

    /// Returns the tables of a definition: one, or one for each kind.
    pub(crate) fn tables(&self, name: &str) -> Vec<Table<'_>> {
        let definition = self.definition(name);
        match kinds(definition) {
            Some(kinds) => kinds.iter().map(Table::new).collect(),
            None => vec![Table::new(definition)],
        }
    }

    /// Returns the name of the definition of the table at a path such as `link.queue`.
    pub(crate) fn at(&self, path: &str) -> Option<&str> {
        let mut name = "";
        for step in path.split('.').filter(|step| !step.is_empty()) {
            let mut fields = self.tables(name).into_iter().flat_map(|table| table.fields);
            let field = fields.find(|field| field.name == step)?;
            name = self.type_of(field.schema).table()?;
        }
        Some(name)
    }

    /// Returns whether the field at this path has a list of tables.
    pub(crate) fn is_list(&self, path: &str) -> bool {
        let field = self.field(path);
        field.is_some_and(|field| matches!(self.type_of(field.schema), Type::List(..)))
    }

    /// Returns the description of the field at this path.
    pub(crate) fn about(&self, path: &str) -> &str {
        self.field(path).map_or("", |field| text(field.schema))
    }

    /// Returns what a short form of the table at this path stands for, if it has one.
    pub(crate) fn short_form(&self, path: &str) -> Option<&str> {
        let mut shape = self.type_of(self.field(path)?.schema);
        loop {
            match shape {
                Type::ShortOr(short, _) => return Some(text(short)),
                Type::OneOrMany(inner) => shape = *inner,
                _ => return None,
            }
        }
    }

    fn field(&self, path: &str) -> Option<Field<'_>> {
        let (parent, last) = path.rsplit_once('.').unwrap_or(("", path));
        let tables = self.tables(self.at(parent)?);
        tables
            .into_iter()
            .flat_map(|table| table.fields)
            .find(|field| field.name == last)
    }

    /// Returns the type of a field.
    pub(crate) fn type_of<'s>(&'s self, schema: &'s Json) -> Type<'s> {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return self.named(name);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            let present: Vec<_> = choices.iter().filter(|choice| choice["type"] != "null").collect();
            match present.as_slice() {
                [one] => return self.type_of(one),
                [short, table] if short["type"].is_string() && table["$ref"].is_string() => {
                    return Type::ShortOr(short, Box::new(self.type_of(table)));
                }
                _ => {}
            }
        }
        if schema["items"].is_object() {
            let number = schema["minItems"]
                .as_u64()
                .filter(|_| schema["minItems"] == schema["maxItems"]);
            return Type::List(Box::new(self.type_of(&schema["items"])), number);
        }
        Type::Plain(schema)
    }

    fn named<'s>(&'s self, name: &'s str) -> Type<'s> {
        let definition = self.definition(name);
        match name {
            "Span" => return Type::Time,
            "Rate" => return Type::Rate,
            "Scheme" => return Type::Scheme(words(&definition["enum"])),
            _ => {}
        }
        if let Some(part) = name.strip_suffix("Spec") {
            let names = words(&definition["anyOf"][0]["enum"]);
            return Type::Part {
                slot: snake(part),
                names,
            };
        }
        if name.starts_with("OneOrMany_") {
            return Type::OneOrMany(Box::new(self.type_of(&definition["anyOf"][0])));
        }
        if kinds(definition).is_some() {
            let named = definition["anyOf"].is_array();
            return Type::Kinds { name, named };
        }
        if let Some(choices) = definition["oneOf"].as_array() {
            let words = choices.iter().filter_map(|choice| {
                let word = choice["const"].as_str()?;
                Some(Word {
                    word,
                    meaning: text(choice),
                })
            });
            return Type::Words(name, words.collect());
        }
        if definition["properties"].is_object() {
            return Type::Table(name);
        }
        if definition["additionalProperties"].is_object() {
            return Type::Lists(name);
        }
        Type::Plain(definition)
    }
}

impl<'s> Type<'s> {
    /// Returns the definition of the table, or of each table in the list.
    fn table(&self) -> Option<&'s str> {
        match self {
            Type::Table(name) | Type::Kinds { name, .. } | Type::Lists(name) => Some(name),
            Type::List(inner, _) | Type::OneOrMany(inner) | Type::ShortOr(_, inner) => inner.table(),
            _ => None,
        }
    }
}

impl<'s> Table<'s> {
    fn new(schema: &'s Json) -> Self {
        let required = words(&schema["required"]);
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut fields: Vec<_> = properties
            .filter(|(_, schema)| schema["const"].is_null())
            .map(|(name, schema)| Field {
                name,
                schema,
                required: required.contains(&name.as_str()),
            })
            .collect();
        fields.sort_by_key(|field| !field.required);
        Table {
            kind: schema["properties"]["kind"]["const"].as_str(),
            description: text(schema),
            fields,
        }
    }
}

/// Returns the schemas of the kinds of a table.
fn kinds(definition: &Json) -> Option<&Vec<Json>> {
    let has_kinds = |schema: &Json| schema["oneOf"][0]["properties"]["kind"].is_object();
    let named = definition["anyOf"].as_array().into_iter().flatten();
    [definition].into_iter().chain(named).find(|schema| has_kinds(schema))?["oneOf"].as_array()
}

/// Returns the description of a type or field.
pub(crate) fn text(schema: &Json) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

fn words(list: &Json) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

/// Returns `PathPolicy` as `path_policy`.
fn snake(name: &str) -> String {
    let mut result = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !result.is_empty() {
            result.push('_');
        }
        result.extend(c.to_lowercase());
    }
    result
}
