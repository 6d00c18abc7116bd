//! A certificate authority of our own, and a certificate for a server on this machine, made by the `openssl` program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::run;
use super::scratch::write_file;
use super::{Error, Result};

/// A certificate by which a client proves who it is, and its private key, both in PEM.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key, in PKCS #8.
    pub key: PathBuf,
}

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
        openssl(|command| {
            command.args(["req", "-x509", "-subj", "/CN=walpost test authority", "-days", "1"]);
            new_key(command, &made.authority_key()).arg("-out").arg(&made.authority);
        })?;
        made.issue("localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1", &made.key, &made.certificate)?;
        Ok(made)
    }

    /// Makes a certificate of the same authority for a client of this name, in the same folder.
    ///
    /// # Errors
    ///
    /// As [`Certificates::make`].
    pub fn client(&self, name: &str) -> Result<ClientCertificate> {
        let file = |ending| self.authority.with_file_name(format!("client-{name}.{ending}"));
        let made = ClientCertificate { certificate: file("crt"), key: file("key") };
        self.issue(name, "extendedKeyUsage=clientAuth", &made.key, &made.certificate)?;
        Ok(made)
    }

    fn authority_key(&self) -> PathBuf {
        self.authority.with_extension("key")
    }

    /// Makes a key and has the authority vouch for it.
    fn issue(&self, name: &str, extension: &str, key: &Path, certificate: &Path) -> Result<()> {
        let (request, extensions) = (certificate.with_extension("csr"), certificate.with_extension("extensions"));
        write_file(&extensions, &format!("[leaf]\n{extension}\nbasicConstraints=CA:FALSE\n"))?;
        openssl(|command| {
            command.args(["req", "-subj", &format!("/CN={name}")]);
            new_key(command, key).arg("-out").arg(&request);
        })?;
        openssl(|command| {
            command.args(["x509", "-req", "-days", "1", "-extensions", "leaf", "-CAcreateserial"]);
            command.arg("-extfile").arg(&extensions).arg("-in").arg(&request);
            command.arg("-CA").arg(&self.authority).arg("-CAkey").arg(self.authority_key());
            command.arg("-out").arg(certificate);
        })?;
        fs::set_permissions(key, fs::Permissions::from_mode(0o600))
            .map_err(Error::io(format_args!("close {} to others", key.display())))
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
