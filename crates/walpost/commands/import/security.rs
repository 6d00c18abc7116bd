//! How the producer proves who it is, and how it knows the broker: JAAS and key stores, which only Java has.

use std::collections::BTreeMap;

use super::draft::{Draft, Heading};
use super::producer::{Properties, property};
use super::text::Reference;
use crate::debezium::options::{self, PRODUCER};

/// Takes what has to be translated.
pub(super) fn carry(properties: &mut Properties, draft: &mut Draft) {
    mechanism(properties, draft);
    login(properties, draft);
    truststore(properties, draft);
    keystore(properties, draft);
    if let Some(algorithm) = properties.take("ssl.endpoint.identification.algorithm") {
        draft.remark(&properties.full("ssl.endpoint.identification.algorithm"));
        let algorithm = if algorithm.trim().is_empty() { "none" } else { algorithm.trim() };
        property("ssl.endpoint.identification.algorithm", algorithm, draft);
    }
}

fn note(name: &str) -> &'static str {
    options::find(PRODUCER, name).map_or("", |entry| entry.note)
}

/// Amazon's mechanism signs with keys of its own, which librdkafka cannot.
fn mechanism(properties: &mut Properties, draft: &mut Draft) {
    if properties.get("sasl.mechanism") != Some("AWS_MSK_IAM") {
        return;
    }
    let full = properties.full("sasl.mechanism");
    draft.check(&format!(
        "{full} = AWS_MSK_IAM cannot be had: librdkafka does not sign with Amazon's keys. Give the relay a SCRAM user (sasl.mechanism = \
         SCRAM-SHA-512, port 9096) or a client certificate (port 9094)."
    ));
    draft.leave(Heading::Cannot, &full, "AWS_MSK_IAM", note("sasl.mechanism"));
    properties.take("sasl.mechanism");
    if let Some(jaas) = properties.take("sasl.jaas.config") {
        draft.leave(Heading::Cannot, &properties.full("sasl.jaas.config"), &jaas, "it belongs to AWS_MSK_IAM.");
    }
}

fn login(properties: &mut Properties, draft: &mut Draft) {
    let Some(jaas) = properties.take("sasl.jaas.config") else { return };
    let full = properties.full("sasl.jaas.config");
    let Some(Login { module, options }) = Login::parse(&jaas) else {
        draft.check(&format!("{full}: only Connect can read it; it holds user and password."));
        property("sasl.username", "${foreign:sasl.username}", draft);
        property("sasl.password", "${foreign:sasl.password}", draft);
        return;
    };
    let name = module.rsplit('.').next().unwrap_or(&module);
    let targets: &[(&str, &str)] = match name {
        "PlainLoginModule" | "ScramLoginModule" => &[("username", "sasl.username"), ("password", "sasl.password")],
        "Krb5LoginModule" => &[
            ("keyTab", "sasl.kerberos.keytab"),
            ("principal", "sasl.kerberos.principal"),
            ("serviceName", "sasl.kerberos.service.name"),
        ],
        "OAuthBearerLoginModule" => &[
            ("clientId", "sasl.oauthbearer.client.id"),
            ("clientSecret", "sasl.oauthbearer.client.secret"),
            ("scope", "sasl.oauthbearer.scope"),
        ],
        _ => {
            draft.leave(Heading::Cannot, &full, &jaas, &format!("librdkafka has nothing for {module}."));
            return;
        }
    };
    draft.remark(&format!("{full}: {module}"));
    if name == "OAuthBearerLoginModule" {
        property("sasl.oauthbearer.method", "oidc", draft);
    }
    for (option, target) in targets {
        if let Some(value) = options.get(*option) {
            property(target, value, draft);
        }
    }
}

/// A login of JAAS: a module and its options.
#[derive(Debug, PartialEq, Eq)]
struct Login {
    module: String,
    options: BTreeMap<String, String>,
}

impl Login {
    /// Reads `module flag name="value" …;`.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches(';');
        let (module, rest) = text.split_once(char::is_whitespace)?;
        let (_flag, mut rest) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
        let mut options = BTreeMap::new();
        while let Some((name, behind)) = rest.split_once('=') {
            let behind = behind.trim_start();
            let (value, next) = match behind.chars().next() {
                Some(quote @ ('"' | '\'')) => quoted(behind.get(1..)?, quote)?,
                _ => {
                    let (value, next) = behind.split_once(char::is_whitespace).unwrap_or((behind, ""));
                    (value.to_owned(), next)
                }
            };
            options.insert(name.trim().to_owned(), value);
            rest = next;
        }
        Some(Self { module: module.to_owned(), options })
    }
}

/// What stands before the closing quote, and what after it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, ch)) = chars.next() {
        match ch {
            '\\' => value.push(chars.next()?.1),
            ch if ch == quote => return Some((value, text.get(at + ch.len_utf8()..)?)),
            ch => value.push(ch),
        }
    }
    None
}

/// What kind of store a path or a type names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Pem,
    Pkcs12,
    Jks,
}

impl Store {
    fn of(kind: Option<&str>, path: &str) -> Self {
        let ends = |endings: &[&str]| endings.iter().any(|ending| path.to_lowercase().ends_with(ending));
        match kind.map(|kind| kind.trim().to_uppercase()).as_deref() {
            Some("PEM") => Self::Pem,
            Some("PKCS12") => Self::Pkcs12,
            Some(_) => Self::Jks,
            None if ends(&[".pem", ".crt", ".cer"]) => Self::Pem,
            None if ends(&[".p12", ".pfx"]) => Self::Pkcs12,
            None => Self::Jks,
        }
    }
}

/// The names of what goes with a store, as far as it was given.
fn beside(properties: &Properties, names: &[&str]) -> String {
    let given: Vec<String> =
        names.iter().filter(|name| properties.get(name).is_some()).map(|name| properties.full(name)).collect();
    if given.is_empty() { String::new() } else { format!(" (with {})", given.join(", ")) }
}

fn stem(path: &str) -> &str {
    match path.rsplit_once('.') {
        Some((stem, ending)) if !ending.contains('/') => stem,
        _ => path,
    }
}

fn truststore(properties: &mut Properties, draft: &mut Draft) {
    if properties.get("ssl.truststore.location").is_none() {
        return;
    }
    let with = beside(properties, &["ssl.truststore.type", "ssl.truststore.password"]);
    let kind = properties.take("ssl.truststore.type");
    properties.take("ssl.truststore.password");
    let Some(path) = properties.take("ssl.truststore.location") else { return };
    let full = properties.full("ssl.truststore.location");
    if Store::of(kind.as_deref(), &path) == Store::Pem || Reference::of(&path).is_some() {
        draft.remark(&format!("{full}{with}"));
        property("ssl.ca.location", &path, draft);
        return;
    }
    let pem = format!("{}.pem", stem(&path));
    draft.check(&format!(
        "{full} = {path}{with}: a Java store, and here it is a PEM file, which needs no password: \
         keytool -list -keystore {path}, then for each alias keytool -exportcert -rfc -keystore {path} -alias ALIAS >> {pem}"
    ));
    property("ssl.ca.location", &pem, draft);
}

fn keystore(properties: &mut Properties, draft: &mut Draft) {
    if properties.get("ssl.keystore.location").is_none() {
        return;
    }
    let with = beside(properties, &["ssl.keystore.type"]);
    let kind = properties.take("ssl.keystore.type");
    let Some(path) = properties.take("ssl.keystore.location") else { return };
    let full = properties.full("ssl.keystore.location");
    match Store::of(kind.as_deref(), &path) {
        Store::Pem => {
            draft.remark(&format!("{full}{with}"));
            property("ssl.certificate.location", &path, draft);
            property("ssl.key.location", &path, draft);
        }
        Store::Pkcs12 => {
            draft.remark(&format!("{full}{with}"));
            property("ssl.keystore.location", &path, draft);
        }
        Store::Jks => {
            let store = format!("{}.p12", stem(&path));
            draft.check(&format!(
                "{full} = {path}{with}: a Java store, and here it is PKCS#12: \
                 keytool -importkeystore -srckeystore {path} -destkeystore {store} -deststoretype PKCS12"
            ));
            property("ssl.keystore.location", &store, draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_of_jaas_is_read() {
        let text = r#"org.apache.kafka.common.security.scram.ScramLoginModule required username="al\"ice"  password='p=1; x' n=1;"#;
        let login = Login::parse(text).unwrap();
        assert_eq!(login.module, "org.apache.kafka.common.security.scram.ScramLoginModule");
        let options: Vec<_> = login.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(options, [("n", "1"), ("password", "p=1; x"), ("username", "al\"ice")]);
        assert_eq!(Login::parse("M required;").unwrap().options, BTreeMap::new());
        for bad in ["", "${file:/a:b}", "M required username=\"open"] {
            assert_eq!(Login::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_store_is_told_by_its_type_and_else_by_its_name() {
        for (kind, path, expected) in [
            (None, "/a/ca.pem", Store::Pem),
            (None, "/a/store.P12", Store::Pkcs12),
            (None, "/a/store.jks", Store::Jks),
            (None, "/a/store", Store::Jks),
            (Some("pem"), "/a/store.jks", Store::Pem),
            (Some("PKCS12"), "/a/store", Store::Pkcs12),
            (Some("JKS"), "/a/store.p12", Store::Jks),
        ] {
            assert_eq!(Store::of(kind, path), expected, "{kind:?} {path}");
        }
        assert_eq!((stem("/a/store.jks"), stem("/a.b/store")), ("/a/store", "/a.b/store"));
    }
}
