//! A server's time as a column of one of our own tables.

use std::error::Error as StdError;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use walpost_core::time::Timestamp;

/// A `timestamptz` with all its microseconds: on the wire it is what [`Timestamp`] is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerTime(pub(crate) Timestamp);

impl ToSql for ServerTime {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.put_i64(self.0.postgres_micros());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for ServerTime {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_postgres_micros(micros)))
    }

    accepts!(TIMESTAMPTZ);
}
