//! libpq's password file: `host:port:database:user:password`, first match wins.

use std::path::Path;

use super::{Endpoint, Host, SettingsError};

/// Reads the password for this server, database and role.
///
/// A file that was not asked for by name (`is_explicit`) may be absent.
pub(super) fn password(
    path: &Path,
    is_explicit: bool,
    endpoint: &Endpoint,
    database: &str,
    user: &str,
) -> Result<Option<String>, SettingsError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if !is_explicit && error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SettingsError::PasswordFile { path: path.to_owned(), source }),
    };
    if is_open_to_others(&metadata) {
        return Err(SettingsError::PasswordFileMode { path: path.to_owned() });
    }
    let text = std::fs::read_to_string(path)
        .map_err(|source| SettingsError::PasswordFile { path: path.to_owned(), source })?;
    let port = endpoint.port.to_string();
    let host = match &endpoint.host {
        Host::Name(name) => name.clone(),
        // libpq looks for "localhost" when the socket lies in its default folder, else for the folder.
        Host::SocketFolder(folder) if is_default_folder(folder) => "localhost".to_owned(),
        Host::SocketFolder(folder) => folder.display().to_string(),
    };
    Ok(find(&text, [&host, &port, database, user]))
}

fn is_default_folder(folder: &Path) -> bool {
    folder == Path::new("/var/run/postgresql") || folder == Path::new("/tmp")
}

#[cfg(unix)]
fn is_open_to_others(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.is_file() && metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_: &std::fs::Metadata) -> bool {
    false
}

/// The password of the first line whose first four fields match.
fn find(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = split(line);
        let (password, keys) = fields.split_last().filter(|(_, keys)| keys.len() == wanted.len())?;
        let is_match = keys.iter().zip(wanted).all(|(field, wanted)| field.is_wildcard || field.text == wanted);
        is_match.then(|| password.text.clone())
    })
}

#[derive(Default)]
struct Field {
    text: String,
    /// A single asterisk that was not escaped.
    is_wildcard: bool,
}

/// Splits at the first four colons that are not escaped; the rest is the password, in which only the backslash escapes.
fn split(line: &str) -> Vec<Field> {
    let mut fields = vec![Field::default()];
    let mut raw = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let is_last = fields.len() == 5;
        let Some(field) = fields.last_mut() else { break };
        match character {
            '\\' => {
                raw.push('\\');
                field.text.extend(characters.next());
            }
            ':' if !is_last => {
                field.is_wildcard = raw == "*";
                raw.clear();
                fields.push(Field::default());
            }
            _ => {
                raw.push(character);
                field.text.push(character);
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_line_gives_the_password() {
        let text = "# comment\nbroken line\nother:5432:app:u:no\n*:*:app:u:one\n*:*:*:*:two\n";
        for (wanted, password) in [
            (["h", "5432", "app", "u"], Some("one")),
            (["h", "5432", "db", "u"], Some("two")),
            (["other", "5432", "app", "u"], Some("no")),
        ] {
            assert_eq!(find(text, wanted).as_deref(), password, "{wanted:?}");
        }
        assert_eq!(find("a:1:b:c:d", ["a", "2", "b", "c"]), None);
    }

    #[test]
    fn escaped_colons_backslashes_and_asterisks_are_literal() {
        assert_eq!(find(r"\:\:1:5432:a:u:p\:w\\", ["::1", "5432", "a", "u"]).as_deref(), Some(r"p:w\"));
        assert_eq!(find("h:1:a:u:p:w", ["h", "1", "a", "u"]).as_deref(), Some("p:w"));
        assert_eq!(find(r"h:1:\*:u:p", ["h", "1", "a", "u"]), None);
        assert_eq!(find(r"h:1:\*:u:p", ["h", "1", "*", "u"]).as_deref(), Some("p"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused_and_an_absent_default_is_not() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        let endpoint = Endpoint::new("h", 5432);
        assert!(matches!(password(&path, false, &endpoint, "a", "u"), Ok(None)));
        assert!(matches!(password(&path, true, &endpoint, "a", "u"), Err(SettingsError::PasswordFile { .. })));
        std::fs::write(&path, "h:5432:a:u:secret\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(password(&path, false, &endpoint, "a", "u"), Err(SettingsError::PasswordFileMode { .. })));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(password(&path, false, &endpoint, "a", "u").unwrap().as_deref(), Some("secret"));
    }
}
