//! `JsonConverter`, with and without schemas: compact, as Jackson writes it.
//!
//! What stands the same before every value of a schema (`{"schema":…,"payload":`) is written once, when the converter is made
//! ready; a value is then written straight after it.

use super::ConvertError;
use crate::connect::{Decimal, Field, Schema, SchemaType, Value, logical};
use crate::java_text::{self, json_string};

/// The converter's own options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonOptions {
    /// `schemas.enable`: whether a value is wrapped with its schema.
    pub(super) has_schemas: bool,
    /// `decimal.format`: whether decimals are numbers, and not the Base64 of their unscaled value.
    pub(super) has_numeric_decimals: bool,
    /// `replace.null.with.default`: whether the default of a schema takes the place of null.
    pub(super) replaces_null: bool,
}

impl JsonOptions {
    /// What Connect's converter does unless it is told otherwise.
    pub(super) const DEFAULT: Self = Self { has_schemas: true, has_numeric_decimals: false, replaces_null: true };

    /// What stands before every value of this schema.
    pub(super) fn opening(self, schema: Option<&Schema>) -> Result<Vec<u8>, ConvertError> {
        let mut out = Vec::new();
        if self.has_schemas {
            out.extend_from_slice(br#"{"schema":"#);
            match schema {
                Some(schema) => self.schema(&mut out, schema, None)?,
                None => out.extend_from_slice(b"null"),
            }
            out.extend_from_slice(br#","payload":"#);
        }
        Ok(out)
    }

    /// What stands after every value.
    pub(super) const fn closing(self) -> &'static [u8] {
        if self.has_schemas { b"}" } else { b"" }
    }

    /// Writes a schema, of a field where it is one's.
    fn schema(self, out: &mut Vec<u8>, schema: &Schema, field: Option<&str>) -> Result<(), ConvertError> {
        text_member(out, br#"{"type":"#, schema.kind.name());
        match &schema.kind {
            SchemaType::Array(item) => {
                out.extend_from_slice(br#","items":"#);
                self.schema(out, item, None)?;
            }
            SchemaType::Map(key, value) => {
                out.extend_from_slice(br#","keys":"#);
                self.schema(out, key, None)?;
                out.extend_from_slice(br#","values":"#);
                self.schema(out, value, None)?;
            }
            SchemaType::Struct(fields) => self.fields(out, fields)?,
            _ => {}
        }
        out.extend_from_slice(br#","optional":"#);
        out.extend_from_slice(if schema.is_optional { b"true" } else { b"false" });
        what_is_said(out, schema);
        if let Some(default) = &schema.default {
            out.extend_from_slice(br#","default":"#);
            self.value(out, schema, default)?;
        }
        if let Some(name) = field {
            text_member(out, br#","field":"#, name);
        }
        out.push(b'}');
        Ok(())
    }

    fn fields(self, out: &mut Vec<u8>, fields: &[Field]) -> Result<(), ConvertError> {
        out.extend_from_slice(br#","fields":["#);
        for (index, field) in fields.iter().enumerate() {
            comma(out, index);
            self.schema(out, &field.schema, Some(&field.name))?;
        }
        out.push(b']');
        Ok(())
    }

    /// Writes a value of this schema.
    pub(super) fn value(self, out: &mut Vec<u8>, schema: &Schema, value: &Value) -> Result<(), ConvertError> {
        match (value, &schema.kind) {
            (Value::Null, _) => return self.null(out, schema),
            (Value::Boolean(value), _) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            (Value::Integer(value), _) => java_text::integer(out, *value),
            (Value::Float32(value), _) => number(out, value.is_finite(), |out| java_text::float_text(out, *value)),
            (Value::Float64(value), _) => number(out, value.is_finite(), |out| java_text::double_text(out, *value)),
            (Value::String(text), _) => json_string(out, text),
            (Value::Bytes(bytes), _) => base64(out, bytes),
            (Value::Decimal(decimal), _) => self.decimal(out, schema, decimal)?,
            (Value::Json(document), _) => out.extend_from_slice(document),
            (Value::Array(items), SchemaType::Array(item)) => self.array(out, item, items)?,
            (Value::Map(entries), SchemaType::Map(key, of)) => self.map(out, key, of, entries)?,
            (Value::Struct(values), SchemaType::Struct(fields)) if values.len() == fields.len() => {
                self.structure(out, fields, values)?;
            }
            _ => return Err(ConvertError::new(format!("it is not the {} that its schema says", schema.kind.name()))),
        }
        Ok(())
    }

    fn null(self, out: &mut Vec<u8>, schema: &Schema) -> Result<(), ConvertError> {
        match &schema.default {
            Some(default) if self.replaces_null && *default != Value::Null => self.value(out, schema, default),
            _ if schema.is_optional => {
                out.extend_from_slice(b"null");
                Ok(())
            }
            _ => Err(ConvertError::new("it is null where its schema knows neither null nor a default".to_owned())),
        }
    }

    fn decimal(self, out: &mut Vec<u8>, schema: &Schema, decimal: &Decimal) -> Result<(), ConvertError> {
        if self.has_numeric_decimals {
            java_text::decimal_text(out, decimal);
            return Ok(());
        }
        let scale =
            schema.parameters.iter().find(|(name, _)| &**name == "scale").and_then(|(_, scale)| scale.parse().ok());
        if scale != Some(decimal.scale) || !schema.is_named(logical::DECIMAL) {
            return Err(ConvertError::new("it is a decimal of another scale than its schema says".to_owned()));
        }
        base64(out, &java_text::unscaled_bytes(decimal));
        Ok(())
    }

    fn array(self, out: &mut Vec<u8>, item_schema: &Schema, items: &[Value]) -> Result<(), ConvertError> {
        out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            comma(out, index);
            self.value(out, item_schema, item)?;
        }
        out.push(b']');
        Ok(())
    }

    /// An object where the keys are strings, and an array of pairs elsewhere.
    fn map(
        self,
        out: &mut Vec<u8>,
        key_schema: &Schema,
        value_schema: &Schema,
        entries: &[(Value, Value)],
    ) -> Result<(), ConvertError> {
        let is_object = matches!(key_schema.kind, SchemaType::String);
        out.push(if is_object { b'{' } else { b'[' });
        for (index, (key, value)) in entries.iter().enumerate() {
            comma(out, index);
            match key {
                Value::Null if is_object => out.extend_from_slice(br#""null":"#),
                _ if is_object => {
                    self.value(out, key_schema, key)?;
                    out.push(b':');
                }
                _ => {
                    out.push(b'[');
                    self.value(out, key_schema, key)?;
                    out.push(b',');
                }
            }
            self.value(out, value_schema, value)?;
            if !is_object {
                out.push(b']');
            }
        }
        out.push(if is_object { b'}' } else { b']' });
        Ok(())
    }

    fn structure(self, out: &mut Vec<u8>, fields: &[Field], values: &[Value]) -> Result<(), ConvertError> {
        out.push(b'{');
        for (index, (field, value)) in fields.iter().zip(values).enumerate() {
            comma(out, index);
            json_string(out, field.name.as_bytes());
            out.push(b':');
            self.value(out, &field.schema, value)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// Name, version, doc and parameters.
fn what_is_said(out: &mut Vec<u8>, schema: &Schema) {
    if let Some(name) = &schema.name {
        text_member(out, br#","name":"#, name);
    }
    if let Some(version) = schema.version {
        out.extend_from_slice(br#","version":"#);
        java_text::integer(out, i64::from(version));
    }
    if let Some(doc) = &schema.doc {
        text_member(out, br#","doc":"#, doc);
    }
    if !schema.parameters.is_empty() {
        out.extend_from_slice(br#","parameters":{"#);
        for (index, (name, value)) in schema.parameters.iter().enumerate() {
            comma(out, index);
            json_string(out, name.as_bytes());
            text_member(out, b":", value);
        }
        out.push(b'}');
    }
}

fn text_member(out: &mut Vec<u8>, name: &[u8], text: &str) {
    out.extend_from_slice(name);
    json_string(out, text.as_bytes());
}

fn comma(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

/// What is no number in JSON, `NaN` and the infinities, stands in quotes.
fn number(out: &mut Vec<u8>, is_finite: bool, write: impl FnOnce(&mut Vec<u8>)) {
    if is_finite {
        return write(out);
    }
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    java_text::base64(out, bytes);
    out.push(b'"');
}
