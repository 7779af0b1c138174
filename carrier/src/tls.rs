//! TLS for `wss://` routes, which a gateway in front of a daemon asks for. The link trusts its own keys alone; TLS only keeps
//! a gateway's token, which is in the query, from others.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use tokio_rustls::{TlsConnector, rustls};

/// Which certificates are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that this machine trusts.
    #[default]
    System,
    /// Those that one of these authorities signed (PEM).
    Authorities(Vec<u8>),
    /// The one with this SHA-256, whatever name it has and whoever signed it.
    Pinned([u8; 32]),
}

impl Trust {
    /// The authorities of a PEM file.
    ///
    /// # Errors
    /// In words, when it cannot be read or has no certificate.
    pub fn authorities(file: &Path) -> Result<Self, String> {
        let pem = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let trust = Trust::Authorities(pem);
        trust.connector().map(|_| trust).map_err(|why| format!("{}: {why}", file.display()))
    }

    /// The certificate with this SHA-256: 64 hex digits, with or without colons, as `openssl x509 -fingerprint -sha256` says
    /// it.
    ///
    /// # Errors
    /// In words, when it is none.
    pub fn pinned(text: &str) -> Result<Self, String> {
        let digits = text.replace(':', "").to_ascii_lowercase();
        let pin = data_encoding::HEXLOWER.decode(digits.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        pin.map(Trust::Pinned).ok_or_else(|| format!("'{text}' is no SHA-256 of a certificate: it is 64 hex digits"))
    }

    /// What connects with this trust.
    pub(crate) fn connector(&self) -> Result<TlsConnector, String> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let config = ClientConfig::builder_with_provider(provider as Arc<CryptoProvider>)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match self {
            Trust::Pinned(pin) => {
                let verifier = Pinned { pin: *pin, algorithms };
                config.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            Trust::System => config.with_root_certificates(roots(rustls_native_certs::load_native_certs().certs)?),
            Trust::Authorities(pem) => {
                let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
                config.with_root_certificates(roots(certificates.map_err(|error| error.to_string())?)?)
            }
        };
        Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
    }
}

fn roots(certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 { Err("there is no certificate to trust".to_owned()) } else { Ok(roots) }
}

/// Trusts one certificate. That the other end has its key is proved as ever.
#[derive(Debug)]
struct Pinned {
    pin: [u8; 32],
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let digest: [u8; 32] = Sha256::digest(end_entity).into();
        if digest == self.pin {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
