//! A certificate authority of our own, and a certificate for a server on this machine, made by the `openssl` program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::run;
use super::{Error, Result};

/// Where the files of an authority and of the server that it vouches for lie, all in PEM.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority's certificate: what a client must trust.
    pub authority: PathBuf,
    /// The server's certificate, for `localhost` and `127.0.0.1`.
    pub certificate: PathBuf,
    /// The server's private key, in PKCS #8.
    pub key: PathBuf,
}

impl Certificates {
    /// Makes new ones in a folder, good for a day.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] without the `openssl` program, [`Error::Command`] when it refuses.
    pub fn make(folder: &Path) -> Result<Self> {
        let made = Self {
            authority: folder.join("ca.crt"),
            certificate: folder.join("server.crt"),
            key: folder.join("server.key"),
        };
        let authority_key = folder.join("ca.key");
        let extensions = folder.join("extensions");
        fs::write(&extensions, "[server]\nsubjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
            .map_err(Error::io(format_args!("write {}", extensions.display())))?;
        let request = folder.join("server.csr");
        openssl(|command| {
            command.args(["req", "-x509", "-subj", "/CN=walpost test authority", "-days", "1"]);
            new_key(command, &authority_key).arg("-out").arg(&made.authority);
        })?;
        openssl(|command| {
            command.args(["req", "-subj", "/CN=localhost"]);
            new_key(command, &made.key).arg("-out").arg(&request);
        })?;
        openssl(|command| {
            command.args(["x509", "-req", "-days", "1", "-set_serial", "1", "-extensions", "server"]);
            command.arg("-extfile").arg(&extensions).arg("-in").arg(&request);
            command
                .arg("-CA")
                .arg(&made.authority)
                .arg("-CAkey")
                .arg(&authority_key)
                .arg("-out")
                .arg(&made.certificate);
        })?;
        fs::set_permissions(&made.key, fs::Permissions::from_mode(0o600))
            .map_err(Error::io(format_args!("close {} to others", made.key.display())))?;
        Ok(made)
    }
}

fn new_key<'a>(command: &'a mut Command, key: &Path) -> &'a mut Command {
    command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout"]).arg(key)
}

fn openssl(arguments: impl FnOnce(&mut Command)) -> Result<()> {
    let mut command = Command::new("openssl");
    arguments(&mut command);
    run(command, "openssl").map(drop)
}
