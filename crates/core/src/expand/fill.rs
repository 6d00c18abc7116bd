//! The values of a document, put into a schema: `JsonSchemaData.toConnectData`, with what Connect's `Struct` checks.

use bytes::Bytes;

use super::document::{Document, Node, Object};
use crate::connect::{Field, Schema, SchemaType, Value};

/// A document as a value of the schema; `None` where it does not fit, or would be many times as large as it is: the members of an
/// array of unlike objects lack one another's fields, and of each lack there is a null.
pub(super) fn fill(document: &Document<'_>, schema: &Schema) -> Option<Value> {
    let mut fill = Fill { room: document.length().saturating_add(1 << 20) };
    match &document.root {
        Node::Object(_) => fill.value(&document.root, schema),
        _ => None,
    }
}

struct Fill {
    /// How many further members may be lacking.
    room: usize,
}

impl Fill {
    fn value(&mut self, node: &Node<'_>, schema: &Schema) -> Option<Value> {
        Some(match (node, &schema.kind) {
            (Node::Null, _) if schema.is_optional => Value::Null,
            (Node::Boolean(value), SchemaType::Boolean) => Value::Boolean(*value),
            (Node::Integer(number), SchemaType::Int32) if is_int(*number) => Value::Integer(*number),
            (Node::Integer(number), SchemaType::Int64) if !is_int(*number) => Value::Integer(*number),
            (Node::Float(number), SchemaType::Float64) => Value::Float64(*number),
            (Node::String(text), SchemaType::String) => Value::String(Bytes::copy_from_slice(text)),
            (Node::Array(items), SchemaType::Array(item)) => {
                Value::Array(items.iter().map(|node| self.value(node, item)).collect::<Option<_>>()?)
            }
            (Node::Object(object), SchemaType::Struct(fields)) => self.structure(object, fields)?,
            _ => return None,
        })
    }

    /// A member that the document lacks is null; one that the schema lacks is left out.
    fn structure(&mut self, object: &Object<'_>, fields: &[Field]) -> Option<Value> {
        let mut values = Vec::with_capacity(fields.len());
        let mut hint = 0;
        for field in fields {
            let place = object.position(&field.name, hint);
            values.push(match place.and_then(|place| object.members.get(place)) {
                Some(member) => self.value(&member.value, &field.schema)?,
                None => {
                    self.room = self.room.checked_sub(1)?;
                    Value::Null
                }
            });
            hint = place.map_or(hint, |place| place + 1);
        }
        Some(Value::Struct(values))
    }
}

/// Whether Java holds the number in 32 bits.
fn is_int(number: i64) -> bool {
    i32::try_from(number).is_ok()
}
