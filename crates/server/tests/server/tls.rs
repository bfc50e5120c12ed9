//! STARTTLS, with certificates that the tests make, and independent client programs.

use crate::support::{Server, has, run, works};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use server::{ExportConfig, Tls, TlsError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// A directory of certificates, named as GnuTLS's programs expect: a root, the server's, a
/// client's.
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    pub(crate) fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("freeblock-tls-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut root = CertificateParams::new(vec![]).unwrap();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.distinguished_name.push(rcgen::DnType::CommonName, "a root for a test");
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(dir.join("ca-cert.pem"), root.pem()).unwrap();
        for (name, hosts) in
            [("server", vec!["localhost".to_owned(), "127.0.0.1".to_owned()]), ("client", vec![])]
        {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(hosts).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            let certificate = params.signed_by(&key, &root).unwrap();
            std::fs::write(dir.join(format!("{name}-cert.pem")), certificate.pem()).unwrap();
            std::fs::write(dir.join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
        }
        Self(dir)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns a directory without the client's certificate.
    fn uncertified(&self) -> PathBuf {
        let dir = self.0.join("uncertified");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::copy(self.file("ca-cert.pem"), dir.join("ca-cert.pem")).unwrap();
        dir
    }

    pub(crate) fn export(&self, clients: bool, required: bool) -> ExportConfig {
        let root = self.file("ca-cert.pem");
        let clients = clients.then_some(root.as_path());
        let tls =
            Tls::from_files(&self.file("server-cert.pem"), &self.file("server-key.pem"), clients, required);
        ExportConfig { tls: Some(tls.unwrap()), ..ExportConfig::default() }
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn encrypted(port: u16, certificates: &Path) -> String {
    format!("nbds://localhost:{port}/?tls-certificates={}", certificates.display())
}

#[test]
fn encrypted_bytes_are_read_back_unchanged() {
    let certificates = Certificates::new("copy");
    let Some(server) = Server::raw("tls-copy", 32 << 20, certificates.export(true, true)) else { return };
    if has("nbdinfo") && has("nbdcopy") {
        let uri = encrypted(server.port, &certificates.0);
        let info = works("nbdinfo", &[&uri]);
        assert!(info.contains("with TLS") || info.contains("uses_tls"), "{info}");
        let image: Vec<u8> = (0..32usize << 20).map(|i| (i / 4096 * 7 + i % 251) as u8).collect();
        std::fs::write(server.file("there"), &image).unwrap();
        works("nbdcopy", &["--connections=2", &server.file("there"), &uri]);
        assert!(std::fs::read(server.file("disk")).unwrap() == image);
        works("nbdcopy", &["--connections=2", &uri, &server.file("back")]);
        assert!(std::fs::read(server.file("back")).unwrap() == image);
        assert!(!run("nbdinfo", &[&server.uri()]).status.success(), "nothing goes unencrypted");
        let uncertified = run("nbdinfo", &[&encrypted(server.port, &certificates.uncertified())]);
        assert!(!uncertified.status.success(), "nor for a client that shows no certificate");
    }
    server.end();
}

#[test]
fn qemu_encrypts_too() {
    let certificates = Certificates::new("qemu");
    let Some(server) = Server::raw("tls-qemu", 4 << 20, certificates.export(false, true)) else { return };
    if has("qemu-img") && has("qemu-io") {
        let credentials =
            format!("tls-creds-x509,id=tls0,endpoint=client,dir={}", certificates.uncertified().display());
        let image = format!("driver=nbd,host=localhost,port={},tls-creds=tls0", server.port);
        let common = ["--object", credentials.as_str(), "--image-opts"];
        let info = works("qemu-img", &[&["info"], &common[..], &[&image]].concat());
        assert!(info.contains("4 MiB"), "{info}");
        let commands = ["-c", "write -P 5 64k 1M", "-c", "read -P 5 64k 1M", "-c", "flush"];
        let out = works("qemu-io", &[&common[..], &commands, &[&image]].concat());
        assert!(!out.contains("failed"), "{out}");
    }
    server.end();
}

#[test]
fn encryption_may_be_optional() {
    let certificates = Certificates::new("offered");
    let Some(server) = Server::raw("tls-offered", 1 << 20, certificates.export(false, false)) else { return };
    assert!(server.serves(), "in the clear");
    if has("nbdinfo") {
        works("nbdinfo", &[&server.uri()]);
        works("nbdinfo", &[&encrypted(server.port, &certificates.uncertified())]);
    }
    server.end();
}

#[test]
fn garbage_in_place_of_a_handshake_hurts_no_other_client() {
    let certificates = Certificates::new("garbage");
    let Some(server) = Server::raw("tls-garbage", 1 << 20, certificates.export(false, false)) else { return };
    for garbage in
        [&[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5][..], &[0; 100], &[0xFF; 70_000], b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut client = server.connect();
        client.read_exact(&mut [0; 18]).unwrap();
        client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0").unwrap();
        client.read_exact(&mut [0; 20]).unwrap();
        let _ = client.write_all(garbage);
        // The client gets at most an alert.
        let _ = client.read_to_end(&mut Vec::new());
        assert!(server.serves());
    }
    server.end();
}

#[test]
fn files_that_do_not_fit_are_refused_by_name() {
    let certificates = Certificates::new("refused");
    let file = |name: &str| certificates.file(name);
    let refused = |certificate: &str, key: &str, clients: Option<&str>| {
        let clients = clients.map(file);
        Tls::from_files(&file(certificate), &file(key), clients.as_deref(), true).unwrap_err()
    };
    std::fs::write(file("empty.pem"), "").unwrap();
    let error = refused("server-cert.pem", "client-key.pem", None);
    assert!(matches!(error, TlsError::Pair { .. }), "{error}");
    let error = refused("empty.pem", "server-key.pem", None);
    assert!(error.to_string().contains("empty.pem has no certificate"), "{error}");
    let error = refused("server-cert.pem", "nothing.pem", None);
    assert!(matches!(&error, TlsError::File { path, .. } if path.ends_with("nothing.pem")), "{error}");
    let error = refused("server-cert.pem", "server-key.pem", Some("empty.pem"));
    assert!(matches!(error, TlsError::Empty { .. }), "{error}");
    // A file without an end is read only up to the limit.
    std::os::unix::fs::symlink("/dev/zero", file("endless.pem")).unwrap();
    for error in
        [refused("endless.pem", "server-key.pem", None), refused("server-cert.pem", "endless.pem", None)]
    {
        assert!(error.to_string().contains("endless.pem: "), "{error}");
        assert!(error.to_string().contains("the file has more than"), "{error}");
    }
}
