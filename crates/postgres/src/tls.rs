//! TLS of the ordinary session, by the rules that the replication session's library follows for its own.
//!
//! That library insists on the host's name in `verify-ca` too. The ordinary session goes first and remembers a name that the
//! certificate does bear; the replication session then asks for that one, which proves no less than the mode promises.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::connection::{TlsMode, TlsSettings};
use crate::error::Error;

/// A name in the server's certificate, once one was seen that is not the host's.
pub(crate) type SeenName = Arc<OnceLock<String>>;

/// What rustls needs to know for these settings. With `verify-ca` it notes in `seen` what the certificate is called instead.
pub(crate) fn client_config(settings: &TlsSettings, seen: &SeenName) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots(settings.root_certificate.as_deref())?);
    let verifier: Arc<dyn ServerCertVerifier> = match settings.effective_mode() {
        TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => Arc::new(Unverified(Arc::clone(&provider))),
        mode @ (TlsMode::VerifyCa | TlsMode::VerifyFull) => {
            let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|error| Error::Tls { reason: error.to_string() })?;
            if mode == TlsMode::VerifyFull { chain } else { Arc::new(ChainOnly { chain, seen: Arc::clone(seen) }) }
        }
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls { reason: error.to_string() })?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match &settings.client {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| Error::Tls { reason: format!("sslcert and sslkey do not fit: {error}") }),
    }
}

fn roots(path: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    match path {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let (added, _) = roots.add_parsable_certificates(certificates(path)?);
            if added == 0 {
                return Err(Error::Tls { reason: format!("{} holds no certificate of an authority", path.display()) });
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unreadable =
        |error| Error::Tls { reason: format!("{} holds no readable certificate: {error}", path.display()) };
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(Error::Tls { reason: format!("{} holds no certificate", path.display()) });
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| Error::Tls {
        reason: format!("{} holds no readable, unencrypted key: {error}", path.display()),
    })
}

/// Encrypts and verifies nothing, which is what `prefer` and `require` mean.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies who signed the certificate and not whose it is, which is what `verify-ca` means.
#[derive(Debug)]
struct ChainOnly {
    chain: Arc<WebPkiServerVerifier>,
    seen: SeenName,
}

impl ChainOnly {
    /// rustls tells the names as `DnsName("db.example")` and `IpAddress(10.0.0.1)`. Of a wildcard any name will do.
    fn note(&self, presented: &[String]) {
        let name = presented.iter().find_map(|name| {
            let dns = || name.strip_prefix("DnsName(\"")?.strip_suffix("\")");
            let address = || name.strip_prefix("IpAddress(")?.strip_suffix(')');
            dns().or_else(address).map(|name| name.replacen("*.", "any.", 1))
        });
        if let Some(name) = name {
            // Whoever was first has seen as good a name.
            let _ = self.seen.set(name);
        }
    }
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })) => {
                self.note(&presented);
                Ok(ServerCertVerified::assertion())
            }
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForName)) => {
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_makes_a_configuration_without_files() {
        for mode in [TlsMode::Prefer, TlsMode::Require, TlsMode::VerifyCa, TlsMode::VerifyFull] {
            assert!(
                client_config(&TlsSettings { mode, ..TlsSettings::default() }, &SeenName::default()).is_ok(),
                "{mode:?}"
            );
        }
    }

    #[test]
    fn files_that_hold_no_certificate_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "nothing").unwrap();
        for path in [empty, folder.path().join("absent.pem")] {
            let settings = TlsSettings { root_certificate: Some(path.clone()), ..TlsSettings::default() };
            let error = client_config(&settings, &SeenName::default()).expect_err("no certificate").to_string();
            assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
        }
    }
}
