//! The schema of a document, inferred from its values: `JsonSchemaData.toConnectSchema`.
//!
//! A [`Shape`] is a schema that can still grow, as the objects of an array do one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Settings;
use super::document::{Document, Node, Object};
use crate::connect::{Field, Schema, SchemaType};
use crate::router::{EmptyArrayBehavior, NullBehavior};

/// What a value is. Of a value that is left out (null, an empty array) there is none.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Text,
    Boolean,
    Int32,
    Int64,
    Float64,
    Bytes,
    Array(Box<Shape>),
    Struct(Struct),
}

/// What an object is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Struct {
    name: Option<Arc<str>>,
    is_optional: bool,
    fields: Vec<(Arc<str>, Shape)>,
    /// Where each field stands, once the shape has begun to grow.
    places: BTreeMap<Arc<str>, usize>,
}

/// Why a document has no shape.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoShape {
    /// Debezium finds none and keeps the text: a member without a name, an array of unlike members or of nothing but nulls.
    Inconsistent,
    /// The names of its structs, each of which is a whole path, take more room than a document may claim.
    TooLarge,
}

/// Infers the shape of a document.
pub(super) fn infer(document: &Document<'_>, name: &str, settings: Settings) -> Result<Option<Shape>, NoShape> {
    let mut inference = Inference {
        settings,
        path: name.to_owned(),
        is_named: true,
        names: BTreeMap::new(),
        room: document.length().saturating_mul(16).saturating_add(1 << 20),
    };
    inference.shape(&document.root)
}

struct Inference {
    settings: Settings,
    /// The names on the way from the column to the value, with points between them.
    path: String,
    /// Whether the value has such a name: the members of an array in an array have none.
    is_named: bool,
    /// The names of structs so far, each once.
    names: BTreeMap<String, Arc<str>>,
    /// What further names may take.
    room: usize,
}

/// The path outside of an object.
struct Outer {
    is_named: bool,
    /// The path, where those of the members do not begin with it.
    path: Option<String>,
    /// Its length, where they do.
    length: usize,
}

impl Inference {
    fn shape(&mut self, node: &Node<'_>) -> Result<Option<Shape>, NoShape> {
        Ok(Some(match node {
            Node::Null => match self.settings.nulls {
                NullBehavior::Ignore => return Ok(None),
                NullBehavior::OptionalBytes => Shape::Bytes,
            },
            Node::Boolean(_) => Shape::Boolean,
            Node::Integer(number) if i32::try_from(*number).is_ok() => Shape::Int32,
            Node::Integer(_) => Shape::Int64,
            Node::Huge | Node::Float(_) => Shape::Float64,
            Node::String(_) => Shape::Text,
            Node::Array(items) if items.is_empty() => match self.settings.empty_arrays {
                EmptyArrayBehavior::Ignore => return Ok(None),
                EmptyArrayBehavior::OptionalString => Shape::Array(Box::new(Shape::Text)),
            },
            Node::Array(items) => Shape::Array(Box::new(self.item(items)?)),
            Node::Object(object) => Shape::Struct(self.structure(object)?),
        }))
    }

    fn structure(&mut self, object: &Object<'_>) -> Result<Struct, NoShape> {
        let name = self.name()?;
        let mut fields = Vec::with_capacity(object.members.len());
        let outer = self.enter();
        for member in &object.members {
            let length = self.path.len();
            self.path.push_str(&member.name);
            let shape = self.shape(&member.value);
            self.path.truncate(length);
            match shape? {
                Some(_) if member.name.is_empty() => return Err(NoShape::Inconsistent),
                Some(shape) => fields.push((Arc::from(member.name.as_ref()), shape)),
                None => {}
            }
        }
        self.leave(outer);
        Ok(Struct { name, is_optional: true, fields, places: BTreeMap::new() })
    }

    /// Makes the path ready for the names of members; returns how it is restored.
    fn enter(&mut self) -> Outer {
        let is_named = std::mem::replace(&mut self.is_named, true);
        if !is_named || is_blank(&self.path) {
            return Outer { is_named, path: Some(std::mem::take(&mut self.path)), length: 0 };
        }
        let length = self.path.len();
        self.path.push('.');
        Outer { is_named, path: None, length }
    }

    fn leave(&mut self, outer: Outer) {
        self.is_named = outer.is_named;
        match outer.path {
            Some(path) => self.path = path,
            None => self.path.truncate(outer.length),
        }
    }

    /// The name of a struct.
    fn name(&mut self) -> Result<Option<Arc<str>>, NoShape> {
        if !self.is_named {
            return Ok(None);
        }
        if let Some(name) = self.names.get(&self.path) {
            return Ok(Some(name.clone()));
        }
        self.room = self.room.checked_sub(self.path.len()).ok_or(NoShape::TooLarge)?;
        let name: Arc<str> = Arc::from(self.path.as_str());
        self.names.insert(self.path.clone(), name.clone());
        Ok(Some(name))
    }

    /// The shape of the members of an array: that of the first which is not null, or the union of all objects.
    fn item(&mut self, items: &[Node<'_>]) -> Result<Shape, NoShape> {
        let mut present = items.iter().filter(|item| !matches!(item, Node::Null));
        let sample = present.next().unwrap_or(&Node::Null);
        if !present.all(|item| is_alike(sample, item)) {
            return Err(NoShape::Inconsistent);
        }
        if let Node::Object(first) = sample {
            return self.union(first, items).map(Shape::Struct);
        }
        let path = std::mem::take(&mut self.path);
        let was_named = std::mem::replace(&mut self.is_named, false);
        let shape = self.shape(sample);
        self.path = path;
        self.is_named = was_named;
        shape?.ok_or(NoShape::Inconsistent)
    }

    /// The union of objects of more than one shape is not optional, as in Debezium: there a null among them has no place.
    fn union(&mut self, first: &Object<'_>, items: &[Node<'_>]) -> Result<Struct, NoShape> {
        let mut union = self.structure(first)?;
        let objects = items.iter().filter_map(|item| if let Node::Object(object) = item { Some(object) } else { None });
        for object in objects.skip(1) {
            let shape = self.structure(object)?;
            if !union.is_optional || union != shape {
                union.is_optional = false;
                union.absorb(shape);
            }
        }
        Ok(union)
    }
}

/// As Java's `trim` leaves nothing.
fn is_blank(text: &str) -> bool {
    text.chars().all(|char| char <= ' ')
}

/// Whether two members of an array are of one kind, and numbers of one width.
fn is_alike(a: &Node<'_>, b: &Node<'_>) -> bool {
    match (a, b) {
        (Node::Integer(a), Node::Integer(b)) => i32::try_from(*a).is_ok() == i32::try_from(*b).is_ok(),
        (Node::Float(_) | Node::Huge, Node::Float(_) | Node::Huge) => true,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

impl Shape {
    /// Takes in another shape of the same member. What was null before gives way, objects and arrays of objects are united, and
    /// elsewhere the first stays; whatever is not of it will not fit.
    fn absorb(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Bytes, other) => *self = other,
            (Self::Struct(own), Self::Struct(other)) => own.absorb(other),
            (Self::Array(own), Self::Array(other)) => own.absorb(*other),
            _ => {}
        }
    }

    /// The schema, which grows no more. Everything but a union is optional.
    pub(super) fn into_schema(self) -> Arc<Schema> {
        let (kind, name, is_optional) = match self {
            Self::Text => (SchemaType::String, None, true),
            Self::Boolean => (SchemaType::Boolean, None, true),
            Self::Int32 => (SchemaType::Int32, None, true),
            Self::Int64 => (SchemaType::Int64, None, true),
            Self::Float64 => (SchemaType::Float64, None, true),
            Self::Bytes => (SchemaType::Bytes, None, true),
            Self::Array(item) => (SchemaType::Array(item.into_schema()), None, true),
            Self::Struct(Struct { name, is_optional, fields, .. }) => {
                let field = |(name, shape): (Arc<str>, Self)| Field { name, schema: shape.into_schema() };
                (SchemaType::Struct(fields.into_iter().map(field).collect()), name, is_optional)
            }
        };
        Arc::new(Schema { name, is_optional, ..Schema::of(kind) })
    }
}

impl Struct {
    fn absorb(&mut self, other: Self) {
        if self.places.is_empty() {
            self.places = self.fields.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        }
        for (name, shape) in other.fields {
            match self.places.get(&name).and_then(|place| self.fields.get_mut(*place)) {
                Some((_, own)) => own.absorb(shape),
                None => {
                    self.places.insert(name.clone(), self.fields.len());
                    self.fields.push((name, shape));
                }
            }
        }
    }
}
