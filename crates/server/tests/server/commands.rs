//! The NBD commands other than read and write, over an emulated drive and over a file.

use crate::support::{self, Server, has, run, works};
use device::Device;
use server::ExportConfig;
use std::os::unix::fs::MetadataExt;

fn qemu_io<D: Device + Send + 'static>(server: &Server<D>, commands: &[&str]) -> String {
    let uri = server.uri();
    let mut args = vec!["-f", "raw", uri.as_str()];
    commands.iter().for_each(|command| args.extend(["-c", command]));
    works("qemu-io", &args)
}

/// Tests trims, zeroes with and without holes, and block status.
fn trims_zeroes_and_maps<D: Device + Send + 'static>(server: &Server<D>) {
    if !(has("qemu-io") && has("nbdinfo") && has("nbdcopy")) {
        return;
    }
    let info = works("nbdinfo", &[&server.uri()]);
    for line in ["can_trim: true", "can_zero: true", "can_cache: true", "base:allocation", "can_fua: true"] {
        assert!(info.contains(line), "no {line:?} in\n{info}");
    }
    let disk = server.dir.join("disk");
    let blocks = || std::fs::metadata(&disk).unwrap().blocks();
    assert!(works("nbdinfo", &["--map", &server.uri()]).contains("hole,zero"), "nothing is written yet");
    let out = qemu_io(server, &["write -P 7 0 1M", "flush"]);
    assert!(!out.contains("failed"), "{out}");
    let full = blocks();
    assert!(full >= 2048, "{full} blocks");
    let map = works("nbdinfo", &["--map", "--json", &server.uri()]);
    let data = map.find("\"length\": 1048576").or_else(|| map.find("\"length\":1048576"));
    assert!(data.is_some(), "a megabyte of data at the beginning: {map}");
    let out = qemu_io(
        server,
        &["discard 0 256k", "read -P 7 256k 256k", "write -z -u 512k 256k", "read -P 0 512k 256k", "flush"],
    );
    assert!(!out.contains("failed"), "{out}");
    assert!(blocks() < full, "{} blocks of {full}: there are holes", blocks());
    let holed = blocks();
    let out = qemu_io(server, &["write -z 768k 256k", "read -P 0 768k 256k", "read -P 7 256k 256k"]);
    assert!(!out.contains("failed"), "{out}");
    assert!(blocks() >= holed, "no hole where none was allowed");
    // nbdcopy copies holes as holes, and the copy is equal.
    works("nbdcopy", &[&server.uri(), &server.file("copy")]);
    assert!(std::fs::read(server.file("copy")).unwrap() == std::fs::read(&disk).unwrap());
}

#[test]
fn an_emulated_drive_trims_zeroes_and_maps() {
    let Some(server) = Server::emulated_plain("commands") else { return };
    trims_zeroes_and_maps(&server);
    assert_eq!(server.end().failed, 0);
}

#[test]
fn a_file_trims_zeroes_and_maps() {
    let Some(server) = Server::raw("commands-raw", 8 << 20, ExportConfig::default()) else { return };
    trims_zeroes_and_maps(&server);
    assert_eq!(server.end().failed, 0);
}

#[test]
fn a_file_is_copied_over_many_connections() {
    let Some(server) = Server::raw("copies", 64 << 20, ExportConfig::default()) else { return };
    if has("nbdcopy") {
        let image: Vec<u8> = (0..64usize << 20).map(|i| (i / 4096 * 7 + i % 251) as u8).collect();
        std::fs::write(server.file("there"), &image).unwrap();
        let many = ["--connections=4", "--requests=64", "--flush"];
        works("nbdcopy", &[&many[..], &[&server.file("there"), &server.uri()]].concat());
        works("nbdcopy", &[&many[..2], &[&server.uri(), &server.file("back")]].concat());
        assert!(std::fs::read(server.file("back")).unwrap() == image);
        assert!(std::fs::read(server.file("disk")).unwrap() == image);
    }
    assert_eq!(server.end().failed, 0);
}

#[test]
fn a_read_only_export_refuses_writes() {
    let export = ExportConfig { read_only: true, ..ExportConfig::default() };
    let Some(server) = Server::raw("read-only", 1 << 20, export) else { return };
    if has("nbdinfo") && has("qemu-io") {
        assert!(works("nbdinfo", &[&server.uri()]).contains("is_read_only: true"));
        let refused = run("qemu-io", &["-f", "raw", "-c", "write -P 1 0 4096", &server.uri()]);
        assert!(!refused.status.success() || !refused.stderr.is_empty());
        qemu_io_read(&server);
    }
    let mut client = server.connect();
    support::open(&mut client);
    use std::io::{Read, Write};
    for kind in [1, 4, 6] {
        let payload = if kind == 1 { vec![1; 4096] } else { vec![] };
        client.write_all(&[support::request(kind, 1, 0, 4096), payload].concat()).unwrap();
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply[7], 1, "command {kind} is not permitted");
    }
    drop(client);
    assert!(std::fs::read(server.dir.join("disk")).unwrap() == vec![0; 1 << 20]);
    server.end();
}

fn qemu_io_read<D: Device + Send + 'static>(server: &Server<D>) {
    works("qemu-io", &["-r", "-f", "raw", "-c", "read -P 0 0 1M", &server.uri()]);
}

#[test]
fn prefetched_data_are_not_sent() {
    let Some(server) = Server::emulated_plain("cache") else { return };
    use std::io::{Read, Write};
    let mut client = server.connect();
    support::open(&mut client);
    client.write_all(&support::request(5, 9, 0, 1_500_160)).unwrap();
    let mut reply = [1; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply, *b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x09");
    drop(client);
    let (tally, disk) = server.ended();
    assert_eq!((tally.requests, tally.failed), (1, 0));
    assert_eq!(disk.lateness().len(), 3, "in pieces of a megabyte, and the last flush");
}
