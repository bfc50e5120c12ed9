//! `freeblock serve` with encryption.

use crate::serve::{PROFILE, has, start, works};
use crate::support::{Dir, run_with};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::net::TcpListener;
use std::process::Command;

/// Makes certificates as GnuTLS's programs expect them.
pub(crate) fn certificates(dir: &Dir) {
    let mut root = CertificateParams::new(vec![]).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.distinguished_name.push(DnType::CommonName, "a root for a test");
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
    dir.file("ca-cert.pem", &root.pem());
    for (name, hosts) in [("server", vec!["localhost".to_owned()]), ("client", vec![])] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        dir.file(&format!("{name}-cert.pem"), &params.signed_by(&key, &root).unwrap().pem());
        dir.file(&format!("{name}-key.pem"), &key.serialize_pem());
    }
}

#[test]
fn an_encrypted_disk_refuses_other_clients() {
    let dir = Dir::new();
    certificates(&dir);
    let profile = dir.file("small.toml", PROFILE);
    // A free port, which is probably still free in a moment.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let [certificate, key, root] =
        ["server-cert.pem", "server-key.pem", "ca-cert.pem"].map(|name| dir.path(name));
    let config = |listen: &str, tls: &str| {
        let disk = dir.path("disk");
        format!(
            "[[disk]]\nname = \"d0\"\ndevice = \"emulated:{profile},file={disk}\"\nlisten = [\"{listen}\"]\n{tls}"
        )
    };
    let tls = format!("tls = {{ certificate = \"{certificate}\", key = \"{key}\", clients = \"{root}\" }}\n");
    // With encryption an address that other machines reach is permitted.
    let file = dir.file("f.toml", &config(&format!("tcp:0.0.0.0:{port}"), &tls));
    let Some(daemon) = start(&["--config", &file, "--json"], 1) else { return };
    if has("nbdinfo") {
        let here = dir.path("");
        let info = works("nbdinfo", &[&format!("nbds://localhost:{port}/?tls-certificates={here}")]);
        assert!(info.contains("with TLS") || info.contains("uses_tls"), "{info}");
        let plain = Command::new("nbdinfo").arg(format!("nbd://localhost:{port}")).output().unwrap();
        assert!(!plain.status.success(), "nothing goes unencrypted");
    }
    daemon.end();
    let refused = |listen: &str, tls: &str, words: &[&str]| {
        let file = dir.file("f.toml", &config(listen, tls));
        run_with(&["serve", "--config", &file]).complained(1, &[words, &["f.toml", "here"]].concat());
    };
    let anywhere = format!("tcp:0.0.0.0:{port}");
    refused(&anywhere, "", &["is reached from other machines", &anywhere]);
    let optional = tls.replace(" }", ", required = false }");
    refused(&anywhere, &optional, &["is reached from other machines"]);
    refused("unix:/s", &tls.replace("server-key", "client-key"), &["the certificate of", "client-key.pem"]);
    refused("unix:/s", &tls.replace("server-cert", "none"), &["none.pem: ", "PEM format"]);
    refused("unix:/s", "tls = { certificate = \"x\" }\n", &["missing field `key`"]);
}
