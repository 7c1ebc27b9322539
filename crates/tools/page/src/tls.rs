// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's certificate: given, or made at the first start and kept.
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::PageError;

const YEARS: i32 = 10;

/// Files of a certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The configuration of TLS, and the certificate's SHA-256, by which a user recognises it.
pub fn configuration(files: &Files, names: &[String]) -> Result<(Arc<ServerConfig>, String), PageError> {
    if !files.certificate.exists() && !files.key.exists() {
        make(files, names)?;
    }
    let fail = |path: &Path, reason: String| PageError::Certificate { path: path.to_owned(), reason };
    let chain: Result<Vec<CertificateDer>, _> =
        CertificateDer::pem_file_iter(&files.certificate).and_then(|certificates| certificates.collect());
    let chain = chain.map_err(|error| fail(&files.certificate, format!("no certificate as PEM: {error}")))?;
    let Some(first) = chain.first() else {
        return Err(fail(&files.certificate, "no certificate as PEM in it".into()));
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, first);
    let fingerprint: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| fail(&files.key, format!("no private key as PEM: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| fail(&files.certificate, format!("{error}; is {} its key?", files.key.display())))?;
    Ok((Arc::new(config), fingerprint.join(":")))
}

/// Names that the page may be called by: this host's, and the addresses on which it is served.
pub fn names(host: &str, address: SocketAddr) -> Vec<String> {
    let mut names = vec![host.to_owned(), "localhost".into(), "127.0.0.1".into(), "::1".into()];
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    names.retain(|name| !name.is_empty());
    names.dedup();
    names
}

fn make(files: &Files, names: &[String]) -> Result<(), PageError> {
    let fail = |path: &Path, reason: String| PageError::Certificate { path: path.to_owned(), reason };
    let made = |error: rcgen::Error| fail(&files.certificate, format!("a certificate cannot be made: {error}"));
    let mut params = CertificateParams::default();
    for name in names {
        let san = match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => match name.as_str().try_into() {
                Ok(name) => SanType::DnsName(name),
                // A host's name may be none of the DNS.
                Err(_) => continue,
            },
        };
        params.subject_alt_names.push(san);
    }
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "selvedge daemon");
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let year = 1970 + (seconds / 31_556_952) as i32;
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + YEARS, 1, 1);
    let key = KeyPair::generate().map_err(made)?;
    let certificate = params.self_signed(&key).map_err(made)?;
    let written = |path: &Path, error: io::Error| fail(path, format!("cannot be written: {error}"));
    write(&files.key, &key.serialize_pem(), 0o600).map_err(|error| written(&files.key, error))?;
    write(&files.certificate, &certificate.pem(), 0o644).map_err(|error| written(&files.certificate, error))
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_certificate_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
        let files = Files { certificate, key };
        let names = names("host_1", "192.0.2.1:7392".parse().unwrap());
        assert_eq!(names, ["host_1", "localhost", "127.0.0.1", "::1", "192.0.2.1"]);
        let (_, first) = configuration(&files, &names).unwrap();
        let (_, second) = configuration(&files, &names).unwrap();
        assert_eq!((first.clone(), first.len()), (second, 95));
        assert_eq!(std::fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn wrong_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { certificate: folder.path().join("c.pem"), key: folder.path().join("k.pem") };
        std::fs::write(&files.certificate, "nothing").unwrap();
        assert!(configuration(&files, &[]).unwrap_err().to_string().contains("c.pem"));
        std::fs::remove_file(&files.certificate).unwrap();
        configuration(&files, &["localhost".into()]).unwrap();
        std::fs::write(&files.key, "nothing").unwrap();
        assert!(configuration(&files, &[]).unwrap_err().to_string().contains("k.pem"));
        let other = Files { certificate: folder.path().join("d.pem"), key: folder.path().join("l.pem") };
        configuration(&other, &["localhost".into()]).unwrap();
        let mixed = Files { certificate: files.certificate, key: other.key };
        assert!(configuration(&mixed, &[]).unwrap_err().to_string().contains("its key?"));
    }
}
