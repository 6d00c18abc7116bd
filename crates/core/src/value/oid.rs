//! OIDs of built-in types, as `src/include/catalog/pg_type.dat` has them; they never change.
//!
//! Types that are not built in have another OID in every database, and are not here.

/// `boolean`
pub const BOOL: u32 = 16;
/// `bytea`
pub const BYTEA: u32 = 17;
/// `"char"`
pub const CHAR: u32 = 18;
/// `name`
pub const NAME: u32 = 19;
/// `bigint`
pub const INT8: u32 = 20;
/// `smallint`
pub const INT2: u32 = 21;
/// `integer`
pub const INT4: u32 = 23;
/// `text`
pub const TEXT: u32 = 25;
/// `oid`
pub const OID: u32 = 26;
/// `json`
pub const JSON: u32 = 114;
/// `xml`
pub const XML: u32 = 142;
/// `point`
pub const POINT: u32 = 600;
/// `lseg`
pub const LSEG: u32 = 601;
/// `path`
pub const PATH: u32 = 602;
/// `box`
pub const BOX: u32 = 603;
/// `polygon`
pub const POLYGON: u32 = 604;
/// `line`
pub const LINE: u32 = 628;
/// `cidr`
pub const CIDR: u32 = 650;
/// `real`
pub const FLOAT4: u32 = 700;
/// `double precision`
pub const FLOAT8: u32 = 701;
/// `circle`
pub const CIRCLE: u32 = 718;
/// `macaddr8`
pub const MACADDR8: u32 = 774;
/// `money`
pub const MONEY: u32 = 790;
/// `macaddr`
pub const MACADDR: u32 = 829;
/// `inet`
pub const INET: u32 = 869;
/// `character(n)`
pub const BPCHAR: u32 = 1042;
/// `character varying`
pub const VARCHAR: u32 = 1043;
/// `date`
pub const DATE: u32 = 1082;
/// `time without time zone`
pub const TIME: u32 = 1083;
/// `timestamp without time zone`
pub const TIMESTAMP: u32 = 1114;
/// `timestamp with time zone`
pub const TIMESTAMPTZ: u32 = 1184;
/// `interval`
pub const INTERVAL: u32 = 1186;
/// `time with time zone`
pub const TIMETZ: u32 = 1266;
/// `bit(n)`
pub const BIT: u32 = 1560;
/// `bit varying`
pub const VARBIT: u32 = 1562;
/// `numeric`
pub const NUMERIC: u32 = 1700;
/// `uuid`
pub const UUID: u32 = 2950;
/// `tsvector`
pub const TSVECTOR: u32 = 3614;
/// `jsonb`
pub const JSONB: u32 = 3802;
/// `int4range`
pub const INT4RANGE: u32 = 3904;
/// `numrange`
pub const NUMRANGE: u32 = 3906;
/// `tsrange`
pub const TSRANGE: u32 = 3908;
/// `tstzrange`
pub const TSTZRANGE: u32 = 3910;
/// `daterange`
pub const DATERANGE: u32 = 3912;
/// `int8range`
pub const INT8RANGE: u32 = 3926;

/// The OID of the type that the catalogue has under this name, if it is one of these.
#[must_use]
pub fn of_name(name: &str) -> Option<u32> {
    Some(match name {
        "bool" => BOOL,
        "bytea" => BYTEA,
        "char" => CHAR,
        "name" => NAME,
        "int8" => INT8,
        "int2" => INT2,
        "int4" => INT4,
        "text" => TEXT,
        "json" => JSON,
        "xml" => XML,
        "cidr" => CIDR,
        "macaddr" => MACADDR,
        "inet" => INET,
        "bpchar" => BPCHAR,
        "varchar" => VARCHAR,
        "timestamp" => TIMESTAMP,
        "timestamptz" => TIMESTAMPTZ,
        "uuid" => UUID,
        "jsonb" => JSONB,
        _ => return None,
    })
}
