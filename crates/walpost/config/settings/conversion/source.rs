//! The source: where PostgreSQL is, who we are to it, and what is read there.

use std::time::Duration;

use walpost_postgres::{ConnectionSettings, SlotName};

use super::super::Source;
use super::super::{edges, files};
use super::Conversion;
use crate::config::raw;
use crate::config::reader::{Field, secret_file};
use crate::config::table_name::MAX_NAME_BYTES;
use crate::config::value::{Millis, Names, Text};

/// PostgreSQL's integers, which its timeouts are.
const MAX_GUC_MILLIS: u64 = i32::MAX as u64;

impl Conversion<'_> {
    pub(super) fn slot(&mut self, field: &Field<Text>) -> Option<SlotName> {
        match SlotName::new(field.value.value.as_str()) {
            Ok(slot) => Some(slot),
            Err(error) => {
                self.fault(field, format!("{error}; write 1 to {MAX_NAME_BYTES} of them"));
                None
            }
        }
    }

    pub(super) fn source(
        &mut self,
        source: &raw::Source,
        slot: Option<SlotName>,
        name: Option<&str>,
    ) -> Option<Source> {
        let connection = self.connection(source, name.unwrap_or_default());
        let publications = self.publications(&source.publication);
        let wal_sender_timeout = self.millis(&source.wal_sender_timeout_ms, 1000, MAX_GUC_MILLIS);
        Some(Source {
            connection: connection?,
            slot: slot?,
            publications: publications?,
            may_create: source.create.value,
            is_for_standbys: source.failover.value,
            wal_sender_timeout: wal_sender_timeout?,
        })
    }

    /// The connection: the URL, the keys beside it, and libpq's variables for what both leave out.
    fn connection(&mut self, source: &raw::Source, name: &str) -> Option<ConnectionSettings> {
        self.given_once(source);
        let password = self.password(source);
        let timeout = self.connect_timeout(&source.connect_timeout_ms);
        let has_pair = self.certificate_with_key(source);
        let url = self.url(source)?;
        let text = |field: &Field<Option<Text>>| field.value.as_ref().map(|text| text.value.clone());
        let lookup = |variable: &str| {
            let typed = match variable {
                "PGPASSWORD" => password.clone(),
                "PGSSLMODE" => source.sslmode.value.map(|mode| mode.word().to_owned()),
                "PGSSLROOTCERT" => text(&source.sslrootcert),
                // Half a pair has been noted at its own key; the rest of the connection is judged without it.
                "PGSSLCERT" if has_pair => text(&source.sslcert),
                "PGSSLKEY" if has_pair => text(&source.sslkey),
                _ => None,
            };
            let given = typed.or_else(|| self.around.variable(variable));
            given.or_else(|| (variable == "PGAPPNAME").then(|| name.to_owned()))
        };
        let judgement = edges::connection(&url, lookup);
        let place = source.url.place.or(source.place);
        let section = Field { value: (), key: source.url.key.clone(), place };
        let connection = self.judged(judgement, &section, &[])?;
        files::of_source(source, &section, &connection, self.around, self.findings);
        Some(match timeout {
            Some(timeout) => connection.with_connect_timeout(timeout),
            None => connection,
        })
    }

    /// The URL, or the shortest one where libpq's variables say the rest.
    fn url(&mut self, source: &raw::Source) -> Option<String> {
        match &source.url.value {
            Some(url) => Some(url.value.clone()),
            None if self.findings.is_at_fault(&source.url.key) || self.findings.is_at_fault("source") => None,
            None if ["PGHOST", "PGDATABASE"].iter().any(|name| self.around.variable(name).is_some()) => {
                Some("postgres://".to_owned())
            }
            None => {
                let reason = "the database is missing; write url = \"postgres://user@host:5432/database\", or set PGHOST and PGDATABASE";
                self.findings.fault(&source.url.key, source.place, reason);
                None
            }
        }
    }

    /// Refuses what is said both by a key and by the URL.
    fn given_once(&mut self, source: &raw::Source) {
        let Some(url) = &source.url.value else { return };
        let timeout = &source.connect_timeout_ms;
        let mut keys = vec![
            ("sslmode", &source.sslmode.key, source.sslmode.place),
            ("connect_timeout", &timeout.key, timeout.place),
        ];
        for (parameter, field) in [
            ("password", &source.password_file),
            ("sslrootcert", &source.sslrootcert),
            ("sslcert", &source.sslcert),
            ("sslkey", &source.sslkey),
        ] {
            keys.push((parameter, &field.key, field.place));
        }
        for (parameter, key, place) in keys {
            if place.is_some() && has_parameter(&url.value, parameter) {
                let reason = format!("source.url says `{parameter}` too; delete one of the two");
                self.findings.fault(key, place, reason);
            }
        }
        if source.password_file.is_typed() && password_of(&url.value).is_some() {
            self.fault(&source.password_file, "source.url holds a password too; delete one of the two");
        }
    }

    /// The password of the password file, if there is one and it can be read.
    fn password(&mut self, source: &raw::Source) -> Option<String> {
        let field = &source.password_file;
        let path = field.value.as_ref()?.value.clone();
        secret_file(&Field { value: path, key: field.key.clone(), place: field.place }, self.around, self.findings)
    }

    fn connect_timeout(&mut self, field: &Field<Option<Millis>>) -> Option<Duration> {
        let value = field.value?;
        self.millis(&Field { value, key: field.key.clone(), place: field.place }, 1, MAX_GUC_MILLIS)
    }

    /// Whether certificate and key are given together or not at all.
    fn certificate_with_key(&mut self, source: &raw::Source) -> bool {
        let url = source.url.value.as_ref().map_or("", |url| url.value.as_str());
        let elsewhere = |variable, parameter| self.around.variable(variable).is_some() || has_parameter(url, parameter);
        let has_key = source.sslkey.is_typed() || elsewhere("PGSSLKEY", "sslkey");
        let has_certificate = source.sslcert.is_typed() || elsewhere("PGSSLCERT", "sslcert");
        if source.sslcert.is_typed() && !has_key {
            self.fault(&source.sslcert, "the certificate's key is missing; write sslkey = \"…\" beside it");
        }
        if source.sslkey.is_typed() && !has_certificate {
            self.fault(&source.sslkey, "the key's certificate is missing; write sslcert = \"…\" beside it");
        }
        has_key == has_certificate
    }

    fn publications(&mut self, field: &Field<Names>) -> Option<Vec<String>> {
        let names = &field.value.0;
        let mut is_good = true;
        if names.is_empty() {
            self.fault(field, "the list is empty; name the publication that the outbox tables are in");
            is_good = false;
        }
        for (index, name) in names.iter().enumerate() {
            let reason = if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
                format!("{name:?} cannot be the name of a publication; write 1 to {MAX_NAME_BYTES} bytes")
            } else if names.iter().take(index).any(|earlier| earlier == name) {
                format!("{name:?} is listed twice; delete one")
            } else {
                continue;
            };
            self.fault(field, reason);
            is_good = false;
        }
        is_good.then(|| names.clone())
    }
}

/// Whether the URL's query names this parameter.
fn has_parameter(url: &str, parameter: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|pair| pair.split_once('=').map_or(pair, |(name, _)| name) == parameter)
}

/// The password that a URL holds, still encoded.
pub(in crate::config) fn password_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password).filter(|password| !password.is_empty())
}
