//! What a column holds, as far as its type tells without a look into the catalogue.
//!
//! It decides which reader a value goes to and reads none itself. Of a type that it does not name it keeps the OID and guesses nothing.

use std::fmt;

use super::oid;

/// What a column holds, as far as its type's OID tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `boolean`
    Boolean,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `text`, `character varying`, `character(n)`, `name`, `"char"`, `xml`, `inet`, `cidr` and `macaddr`: what PostgreSQL
    /// writes is what the value is.
    Text,
    /// `uuid`
    Uuid,
    /// `json`: the text as it was inserted.
    Json,
    /// `jsonb`: the server's own rendering.
    Jsonb,
    /// `bytea`
    Bytea,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    Timestamptz,
    /// Any other type, by its OID. Those of extensions (citext, hstore, …) and enums differ from database to database, and so do
    /// those of domains, in whose place the catalog puts the base type where it can be read.
    Other(u32),
}

impl Kind {
    /// The kind of the type with this OID.
    #[must_use]
    pub const fn of(type_id: u32) -> Self {
        match type_id {
            oid::BOOL => Self::Boolean,
            oid::INT2 => Self::Int2,
            oid::INT4 => Self::Int4,
            oid::INT8 => Self::Int8,
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR => Self::Text,
            oid::XML | oid::INET | oid::CIDR | oid::MACADDR => Self::Text,
            oid::UUID => Self::Uuid,
            oid::JSON => Self::Json,
            oid::JSONB => Self::Jsonb,
            oid::BYTEA => Self::Bytea,
            oid::TIMESTAMP => Self::Timestamp,
            oid::TIMESTAMPTZ => Self::Timestamptz,
            other => Self::Other(other),
        }
    }

    /// Whether its text form is taken for its value: text in any sense, and every type that is not built in (an enum,
    /// citext), as Debezium takes enums and citext.
    #[must_use]
    pub const fn is_textual(self) -> bool {
        match self {
            Self::Text | Self::Uuid | Self::Json | Self::Jsonb => true,
            Self::Other(type_id) => type_id >= FIRST_NORMAL_OID,
            Self::Boolean
            | Self::Int2
            | Self::Int4
            | Self::Int8
            | Self::Bytea
            | Self::Timestamp
            | Self::Timestamptz => false,
        }
    }

    /// Whether it is a whole number.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::Int2 | Self::Int4 | Self::Int8)
    }
}

/// The first OID that a type which is not built in can have (`FirstNormalObjectId` in `transam.h`).
const FIRST_NORMAL_OID: u32 = 16384;

impl fmt::Display for Kind {
    /// As SQL names the type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Text => "text",
            Self::Uuid => "uuid",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Bytea => "bytea",
            Self::Timestamp => "timestamp without time zone",
            Self::Timestamptz => "timestamp with time zone",
            Self::Other(type_id) => return write!(f, "the type with OID {type_id}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_beyond_the_built_in_range_are_text() {
        for (type_id, is_textual) in [(16383, false), (16384, true), (u32::MAX, true), (1700, false), (869, true)] {
            assert_eq!(Kind::of(type_id).is_textual(), is_textual, "{type_id}");
        }
    }

    #[test]
    fn a_kind_is_known_by_the_oid_of_its_type() {
        let cases = [
            (16, Kind::Boolean, "boolean"),
            (17, Kind::Bytea, "bytea"),
            (18, Kind::Text, "text"),
            (19, Kind::Text, "text"),
            (20, Kind::Int8, "bigint"),
            (21, Kind::Int2, "smallint"),
            (23, Kind::Int4, "integer"),
            (25, Kind::Text, "text"),
            (114, Kind::Json, "json"),
            (1042, Kind::Text, "text"),
            (1043, Kind::Text, "text"),
            (1114, Kind::Timestamp, "timestamp without time zone"),
            (1184, Kind::Timestamptz, "timestamp with time zone"),
            (2950, Kind::Uuid, "uuid"),
            (3802, Kind::Jsonb, "jsonb"),
            (1700, Kind::Other(1700), "the type with OID 1700"),
            (0, Kind::Other(0), "the type with OID 0"),
        ];
        for (type_id, kind, name) in cases {
            assert_eq!((Kind::of(type_id), Kind::of(type_id).to_string().as_str()), (kind, name));
        }
    }
}
