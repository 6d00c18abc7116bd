//! Which schema and which reader a column has, from its type, its modifier and the catalogue.
//!
//! Built-in types go by their OIDs, those of extensions by their names, in whatever schema they are, as in Debezium's `TypeRegistry`;
//! a domain goes by what it is made of.

use crate::connect::{Options, Schema, SchemaType, logical};
use crate::description::{Description, TypeKind};
use crate::pgoutput::Column;
use crate::value::oid;

use super::numeric::{Money, Numeric};
use super::reader::{ArrayReader, Reader};
use super::temporal::{self, Unit};
use super::{binary, bits, geometry, hstore, interval, vector};

/// The schema without optionality and default, and the reader; nothing where Debezium has neither.
pub(super) fn column_type(
    column: &Column<'_>,
    description: &Description,
    options: &Options,
) -> Option<(Schema, Reader)> {
    let resolver = Resolver { description, options };
    let (type_id, modifier) = resolver.undressed(column.type_id, column.type_modifier);
    resolver.any(type_id, modifier)
}

#[derive(Clone, Copy)]
struct Resolver<'a> {
    description: &'a Description,
    options: &'a Options,
}

impl Resolver<'_> {
    /// What a domain is made of, however deep.
    fn undressed(self, type_id: u32, modifier: i32) -> (u32, i32) {
        let (mut type_id, mut modifier) = (type_id, modifier);
        for _ in 0..=self.description.types.len() {
            let Some(TypeKind::Domain { base, type_modifier, .. }) = self.kind(type_id) else { break };
            modifier = if modifier == -1 { *type_modifier } else { modifier };
            type_id = *base;
        }
        (type_id, modifier)
    }

    fn kind(&self, type_id: u32) -> Option<&TypeKind> {
        self.description.type_of(type_id).map(|described| &described.kind)
    }

    fn any(self, type_id: u32, modifier: i32) -> Option<(Schema, Reader)> {
        match (built_in_array(type_id), self.kind(type_id)) {
            (Some(BuiltInArray::Of(element)), _) => self.array(type_id, element, modifier),
            (Some(BuiltInArray::OfBits), _) => Some((bits::schema(modifier), Reader::Nothing)),
            (Some(BuiltInArray::Unpublished), _) => None,
            (Some(BuiltInArray::Vector(item)), _) => {
                Some((Schema::of(SchemaType::Array(Schema::of(item).into())), Reader::NoElements))
            }
            (None, Some(TypeKind::Array { element })) => self.array(type_id, *element, modifier),
            (None, _) if type_id == oid::NAME => Some((Schema::of(SchemaType::String), self.name())),
            (None, _) => self.scalar(type_id, modifier).or_else(|| self.unknown(type_id)),
        }
    }

    /// Debezium has a schema for `name`, and drops its values like those of a type that it does not know.
    const fn name(self) -> Reader {
        if self.options.include_unknown_datatypes { Reader::Text } else { Reader::DroppedText }
    }

    fn array(self, type_id: u32, element: u32, modifier: i32) -> Option<(Schema, Reader)> {
        let (schema, reader) = self.scalar(element, modifier).or_else(|| self.unknown(element))?;
        let name = self.extension_name(element);
        let is_listed = matches!(built_in_array(type_id), Some(BuiltInArray::Of(_)))
            || matches!(name, Some("citext" | "geometry" | "geography" | "hstore" | "ltree"));
        let array = ArrayReader {
            has_nulls: is_listed && name != Some("ltree"),
            has_literals: matches!(reader, Reader::Text) && !matches!(name, Some("citext" | "isbn")),
            delimiter: self.delimiter(element),
            // A struct of the element's schema is not one of the array's, which differ in optionality: it is never published.
            element: if matches!(reader, Reader::SparseVector) { Reader::Nothing } else { reader },
        };
        let is_optional = schema.is_optional || is_listed;
        let item = Schema { is_optional, ..schema };
        Some((Schema::of(SchemaType::Array(item.into())), Reader::Array(Box::new(array))))
    }

    /// `typdelim` of `pg_type`: only `box` has another than the comma, and PostGIS's types.
    fn delimiter(self, element: u32) -> u8 {
        match self.extension_name(element) {
            Some("geometry" | "geography") => b':',
            _ if element == oid::BOX => b';',
            _ => b',',
        }
    }

    fn unknown(self, type_id: u32) -> Option<(Schema, Reader)> {
        if !self.options.include_unknown_datatypes {
            return None;
        }
        let mode = self.options.binary_handling_mode;
        let is_shape = matches!(type_id, oid::BOX | oid::LINE | oid::LSEG | oid::PATH | oid::POLYGON | oid::CIRCLE);
        Some((binary::schema(mode), if is_shape { Reader::OpaqueShape(mode) } else { Reader::Opaque(mode) }))
    }

    fn scalar(self, type_id: u32, modifier: i32) -> Option<(Schema, Reader)> {
        text_type(type_id)
            .map(|schema| (schema, Reader::Text))
            .or_else(|| self.number(type_id, modifier))
            .or_else(|| self.time(type_id, modifier))
            .or_else(|| self.extension(type_id))
            .or_else(|| self.enumeration(type_id))
    }

    fn number(self, type_id: u32, modifier: i32) -> Option<(Schema, Reader)> {
        let options = self.options;
        let mode = options.decimal_handling_mode;
        let numeric = Numeric::new(mode, modifier);
        let money = Money { mode, fraction_digits: options.money_fraction_digits };
        let bits = match (type_id, modifier) {
            (oid::VARBIT, -1) => i32::MAX,
            _ => modifier,
        };
        Some(match type_id {
            oid::BOOL => (Schema::of(SchemaType::Boolean), Reader::Boolean),
            oid::INT2 => (Schema::of(SchemaType::Int16), Reader::Integer),
            oid::INT4 => (Schema::of(SchemaType::Int32), Reader::Integer),
            oid::INT8 | oid::OID => (Schema::of(SchemaType::Int64), Reader::Integer),
            oid::FLOAT4 => (Schema::of(SchemaType::Float32), Reader::Float4),
            oid::FLOAT8 => (Schema::of(SchemaType::Float64), Reader::Float8),
            oid::NUMERIC => (numeric.schema(), Reader::Numeric(numeric)),
            oid::MONEY => (money.schema(), Reader::Money(money)),
            oid::BIT | oid::VARBIT => (bits::schema(bits), Reader::Bits(bits)),
            oid::BYTEA => (binary::schema(options.binary_handling_mode), Reader::Bytea(options.binary_handling_mode)),
            oid::POINT => (geometry::point_schema(), Reader::Point),
            _ => return None,
        })
    }

    fn time(self, type_id: u32, modifier: i32) -> Option<(Schema, Reader)> {
        let mode = self.options.time_precision_mode;
        let digits = if modifier == -1 { 6 } else { modifier };
        let (time, timestamp) = (Unit::of_time(mode, digits), Unit::of_timestamp(mode, digits));
        let text = |name| Schema::of(SchemaType::String).named(name, 1);
        let intervals = self.options.interval_handling_mode;
        Some(match type_id {
            oid::DATE => (temporal::date_schema(mode), Reader::Date(mode)),
            oid::TIME => (temporal::time_schema(time), Reader::Time(time)),
            oid::TIMETZ => (text(logical::ZONED_TIME), Reader::Timetz),
            oid::TIMESTAMP => (temporal::timestamp_schema(timestamp), Reader::Timestamp(timestamp)),
            oid::TIMESTAMPTZ => (text(logical::ZONED_TIMESTAMP), Reader::Timestamptz(digits)),
            oid::INTERVAL => (interval::schema(intervals), Reader::Interval(intervals)),
            _ => return None,
        })
    }

    fn extension(self, type_id: u32) -> Option<(Schema, Reader)> {
        let hstores = self.options.hstore_handling_mode;
        let text = Schema::of(SchemaType::String);
        Some(match self.extension_name(type_id)? {
            "citext" | "isbn" => (text, Reader::Text),
            "ltree" => (text.named(logical::LTREE, 1), Reader::Text),
            "hstore" => (hstore::schema(hstores), Reader::Hstore(hstores)),
            "geometry" => (geometry::geometry_schema(), Reader::Ewkb),
            "geography" => (geometry::geography_schema(), Reader::Ewkb),
            "vector" => (vector::double_schema(), Reader::DoubleVector),
            "halfvec" => (vector::float_schema(), Reader::FloatVector),
            "sparsevec" => (vector::sparse_schema(), Reader::SparseVector),
            _ => return None,
        })
    }

    fn extension_name(&self, type_id: u32) -> Option<&str> {
        let described = self.description.type_of(type_id)?;
        (described.kind == TypeKind::Base).then_some(described.name.as_str())
    }

    fn enumeration(self, type_id: u32) -> Option<(Schema, Reader)> {
        let TypeKind::Enum { labels } = self.kind(type_id)? else { return None };
        let schema = Schema::of(SchemaType::String).named(logical::ENUM, 1).with_parameter("allowed", labels.join(","));
        Some((schema, Reader::Text))
    }
}

/// The schema of a built-in type whose text is its value.
fn text_type(type_id: u32) -> Option<Schema> {
    let text = Schema::of(SchemaType::String);
    Some(match type_id {
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::CHAR => text,
        oid::INET | oid::CIDR | oid::MACADDR | oid::MACADDR8 => text,
        oid::INT4RANGE | oid::INT8RANGE | oid::NUMRANGE | oid::TSRANGE | oid::TSTZRANGE | oid::DATERANGE => text,
        oid::UUID => text.named(logical::UUID, 1),
        oid::JSON | oid::JSONB => text.named(logical::JSON, 1),
        oid::XML => text.named(logical::XML, 1),
        oid::TSVECTOR => text.named(logical::TSVECTOR, 1),
        _ => return None,
    })
}

/// What Debezium makes of an array that it knows by its OID.
enum BuiltInArray {
    /// An array of the type with this OID; its elements may be null.
    Of(u32),
    /// It has a schema (not of an array) and no converter.
    OfBits,
    /// `int2vector` and `oidvector`, which count as arrays and are not written as such: no element of theirs is found.
    Vector(SchemaType),
    /// It has no schema.
    Unpublished,
}

/// The arrays of `pg_type.dat` that `PostgresValueConverter` names.
const fn built_in_array(type_id: u32) -> Option<BuiltInArray> {
    Some(BuiltInArray::Of(match type_id {
        1561 => return Some(BuiltInArray::OfBits),
        22 => return Some(BuiltInArray::Vector(SchemaType::Int16)),
        30 => return Some(BuiltInArray::Vector(SchemaType::Int64)),
        143 | 791 | 1003 | 1017 | 1187 | 1563 | 2201 => return Some(BuiltInArray::Unpublished),
        199 => oid::JSON,
        651 => oid::CIDR,
        775 => oid::MACADDR8,
        1000 => oid::BOOL,
        1001 => oid::BYTEA,
        1002 => oid::CHAR,
        1005 => oid::INT2,
        1007 => oid::INT4,
        1009 => oid::TEXT,
        1014 => oid::BPCHAR,
        1015 => oid::VARCHAR,
        1016 => oid::INT8,
        1021 => oid::FLOAT4,
        1022 => oid::FLOAT8,
        1028 => oid::OID,
        1040 => oid::MACADDR,
        1041 => oid::INET,
        1115 => oid::TIMESTAMP,
        1182 => oid::DATE,
        1183 => oid::TIME,
        1185 => oid::TIMESTAMPTZ,
        1231 => oid::NUMERIC,
        1270 => oid::TIMETZ,
        2951 => oid::UUID,
        3807 => oid::JSONB,
        3905 => oid::INT4RANGE,
        3907 => oid::NUMRANGE,
        3909 => oid::TSRANGE,
        3911 => oid::TSTZRANGE,
        3913 => oid::DATERANGE,
        3927 => oid::INT8RANGE,
        _ => return None,
    }))
}
