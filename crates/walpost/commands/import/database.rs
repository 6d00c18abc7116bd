//! `[source]`: the URL, the ways of encryption, slot and publication.

use super::draft::{Draft, Heading};
use super::given::Given;
use super::text::{Reference, has_reference, literal, quoted};

/// The plugin where a configuration names none: that of Debezium itself, whatever documentation recommends.
const DEFAULT_PLUGIN: &str = "decoderbufs";

/// Writes the section.
pub(super) fn source(options: &mut Given, draft: &mut Draft) {
    draft.section("[source]");
    url(options, draft);
    password(options, draft);
    encryption(options, draft);
    slot(options, draft);
    failover(options, draft);
}

fn url(options: &mut Given, draft: &mut Draft) {
    let mut missing = Vec::new();
    let mut part = |name: &'static str, default: &str| match options.take(name).filter(|value| !value.is_empty()) {
        Some(value) => value,
        None => {
            missing.push(name);
            default.to_owned()
        }
    };
    let hosts = part("database.hostname", "localhost");
    let user = part("database.user", "postgres");
    let database = part("database.dbname", "postgres");
    let port = options.take("database.port").unwrap_or_default();
    let hosts: Vec<String> = hosts.split(',').map(|host| with_port(host.trim(), port.trim(), draft)).collect();
    draft.remark("database.hostname, database.port, database.user, database.dbname");
    if !missing.is_empty() {
        draft.check(&format!("the connector has no {}.", missing.join(", no ")));
    }
    let url = format!("postgres://{}@{}/{}", encoded(&user, draft), hosts.join(","), encoded(&database, draft));
    draft.written("url", &url);
}

fn with_port(host: &str, port: &str, draft: &mut Draft) -> String {
    // pgjdbc lets each host have a port of its own, and an IPv6 address its brackets.
    let is_bare_ipv6 = !has_reference(host) && !host.starts_with('[') && host.matches(':').count() > 1;
    let host = if is_bare_ipv6 { format!("[{}]", literal(host)) } else { draft.notation(host) };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    if port.is_empty() || has_port { host } else { format!("{host}:{}", draft.notation(port)) }
}

/// A part of the URL. References stay, since nobody knows here what they stand for.
fn encoded(value: &str, draft: &mut Draft) -> String {
    if has_reference(value) {
        draft.check(&format!("what {value} stands for goes into the URL as it is: write %40 for an @ in it."));
        return draft.notation(value);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let byte = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(byte).collect()
}

/// The password is never printed.
fn password(options: &mut Given, draft: &mut Draft) {
    let Some(password) = options.take("database.password").filter(|password| !password.is_empty()) else { return };
    match Reference::of(&password) {
        Some(Reference::File(path)) => {
            draft.remark(&format!("database.password = {password}"));
            draft.key("password_file", &path);
        }
        Some(Reference::Variable(name)) if name == "PGPASSWORD" => {
            draft.remark("database.password = ${env:PGPASSWORD}: that variable is read without being named here.");
            draft.needs(&name);
        }
        reference => {
            let what = match reference {
                Some(Reference::Variable(name)) => {
                    format!("{password}: the variable is PGPASSWORD here; start with PGPASSWORD=\"${name}\"")
                }
                Some(_) => {
                    format!("{password}: only Connect can read that; give the password in the variable PGPASSWORD")
                }
                None => "(not shown): give it in the variable PGPASSWORD".to_owned(),
            };
            draft.remark(&format!("database.password = {what}, or in a file that holds it and nothing else:"));
            draft.remark("password_file = \"/run/secrets/postgres\"");
            draft.needs("PGPASSWORD");
        }
    }
}

fn encryption(options: &mut Given, draft: &mut Draft) {
    if let Some(mode) = options.take("database.sslmode") {
        let word = mode.trim().to_lowercase().replace('_', "-");
        draft.remark(&format!("database.sslmode = {mode}"));
        match word.as_str() {
            "allow" => draft.key("sslmode", "prefer"),
            "disable" | "prefer" | "require" | "verify-ca" | "verify-full" => draft.key("sslmode", &word),
            _ => draft.check("no such mode is known; without one it is `prefer`."),
        }
    }
    if let Some(file) = options.take("database.sslrootcert") {
        draft.remark("database.sslrootcert: a PEM file");
        from_connect("sslrootcert", &file, draft);
    }
    certificate(options, draft);
}

/// Certificate and key, which are given together or not at all.
fn certificate(options: &mut Given, draft: &mut Draft) {
    let (certificate, key) = (options.take("database.sslcert"), options.take("database.sslkey"));
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            draft.remark("database.sslcert: a PEM file");
            from_connect("sslcert", &certificate, draft);
            let pem = key.strip_suffix(".pk8").or_else(|| key.strip_suffix(".der")).map(|stem| format!("{stem}.key"));
            match &pem {
                Some(pem) => draft.check(&format!(
                    "database.sslkey = {key}: pgjdbc's keys are DER, and here they are PEM: openssl pkcs8 -inform DER -in {key} -out {pem} -nocrypt"
                )),
                None => draft.remark("database.sslkey: a PEM file, not encrypted (pgjdbc takes PKCS#8 in DER as well, which has to be converted)"),
            }
            from_connect("sslkey", pem.as_deref().unwrap_or(&key), draft);
        }
        (Some(certificate), None) => {
            draft.leave(
                Heading::Cannot,
                "database.sslcert",
                &certificate,
                "its key is missing: name database.sslkey too.",
            );
        }
        (None, Some(key)) => {
            draft.leave(
                Heading::Cannot,
                "database.sslkey",
                &key,
                "its certificate is missing: name database.sslcert too.",
            );
        }
        (None, None) => {}
    }
}

/// A key with a value of Connect's.
fn from_connect(key: &str, value: &str, draft: &mut Draft) {
    let written = draft.notation(value);
    draft.written(key, &written);
}

fn slot(options: &mut Given, draft: &mut Draft) {
    if let Some(name) =
        ["slot.drop.on.stop", "slot.drop_on_stop"].into_iter().find(|name| options.get(name) == Some("true"))
    {
        draft.check(&format!(
            "{name} = true: set it to false in the connector, and let it start once more, before you stop it; else it drops the slot, and \
             what is committed up to walpost's start is lost."
        ));
        options.take(name);
    }
    let slot = options.take("slot.name").unwrap_or_else(|| "debezium".to_owned());
    let plugin = options.take("plugin.name");
    let is_named = plugin.is_some();
    let plugin = plugin.unwrap_or_else(|| DEFAULT_PLUGIN.to_owned()).trim().to_lowercase();
    let publication = options.take("publication.name").unwrap_or_else(|| "dbz_publication".to_owned());
    if plugin == "pgoutput" {
        draft.remark("slot.name; plugin.name = pgoutput");
        from_connect("slot", slot.trim(), draft);
        let mode = options.get("publication.autocreate.mode").unwrap_or("all_tables").trim().to_lowercase();
        if mode == "all_tables" {
            draft.check(&format!(
                "publication.autocreate.mode = all_tables, Debezium's default: if the publication {publication} is FOR ALL TABLES, make it anew \
                 for the outboxes alone, in one transaction; `walpost check` has the SQL."
            ));
        }
        draft.remark("publication.name");
        from_connect("publication", &publication, draft);
        return;
    }
    let why = if is_named { "" } else { " (there is no plugin.name, and that is Debezium's default)" };
    let own = match has_reference(&slot) {
        true => format!("{}_walpost", draft.notation(slot.trim())),
        false => literal(&format!("{}_walpost", slot.trim().chars().take(55).collect::<String>())),
    };
    draft.check(&format!(
        "plugin.name = {plugin}{why}: slot.name = {} decodes with it, and walpost reads pgoutput only. The slot below is a new one. Make it with \
         `walpost init` while the connector still runs, let the connector come past that moment, stop it, and run walpost: what \
         was committed in between is published by both, and nothing is lost. Then drop the old slot with pg_drop_replication_slot.",
        quoted(&slot)
    ));
    draft.written("slot", &own);
    draft.remark(&format!(
        "publication.name = {publication}: {plugin} has no use for it; `walpost init` makes a publication of the outbox tables"
    ));
    draft.key("publication", "walpost");
}

/// Whether standbys are to have the slot. A server that is too old for it makes an ordinary slot for Debezium, and has `walpost init` refuse.
fn failover(options: &mut Given, draft: &mut Draft) {
    let Some(failover) = options.take("slot.failover") else { return };
    match failover.trim().to_lowercase().as_str() {
        "true" => {
            draft.remark("slot.failover = true: for PostgreSQL 17 and later; Debezium passes over it on an older server, and `walpost init` refuses there");
            draft.raw("failover", "true");
        }
        "false" => {
            draft.remark("slot.failover = false");
            draft.raw("failover", "false");
        }
        _ => draft.check(&format!("slot.failover = {failover}: write failover = true for it, or failover = false.")),
    }
}
