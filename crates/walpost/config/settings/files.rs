//! Files that a connection needs and that are read only when it is opened: whether they can be. Their content is judged by whoever reads it then.

use std::io;
use std::path::Path;

use walpost_postgres::ConnectionSettings;
use walpost_postgres::connection::TlsMode;

use crate::config::finding::Findings;
use crate::config::raw;
use crate::config::reader::Field;
use crate::config::surroundings::Surroundings;
use crate::config::value::{Properties, Property};

/// Notes each file of the database's that cannot be read: at its own key, or at that of the URL, which names it or leaves it to a variable.
pub(super) fn of_source(
    source: &raw::Source,
    url: &Field<()>,
    connection: &ConnectionSettings,
    around: &dyn Surroundings,
    findings: &mut Findings,
) {
    let tls = connection.tls();
    if tls.mode == TlsMode::Disable {
        return;
    }
    let (certificate, key) = tls.client.as_ref().map(|(certificate, key)| (certificate, key)).unzip();
    let files =
        [(&source.sslrootcert, tls.root_certificate.as_ref()), (&source.sslcert, certificate), (&source.sslkey, key)];
    for (field, path) in files {
        if let Some((path, cause)) = path.and_then(|path| Some((path, around.can_read(path).err()?))) {
            let (key, place) = if field.is_typed() { (&field.key, field.place) } else { (&url.key, url.place) };
            findings.fault(key, place, unreadable(path, &cause));
        }
    }
}

/// Notes each file of the producer's that cannot be read.
pub(super) fn of_kafka(section: &Field<Properties<true>>, around: &dyn Surroundings, findings: &mut Findings) {
    for Property { name, value, place, .. } in &section.value.0 {
        // The authorities may be "probe": wherever the system keeps them.
        let is_file = name.starts_with("ssl.") && name.ends_with(".location") && value != "probe";
        let path = Path::new(value);
        if is_file && let Err(cause) = around.can_read(path) {
            findings.fault(format!("{}.\"{name}\"", section.key), *place, unreadable(path, &cause));
        }
    }
}

fn unreadable(path: &Path, cause: &io::Error) -> String {
    format!("{} cannot be read ({cause}); create it, or let this user read it", path.display())
}
