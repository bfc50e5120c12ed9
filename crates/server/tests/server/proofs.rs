//! Short runs of the proofs with independent programs (proofs/*.sh) over a file. `make proofs-long` runs them longer,
//! and over emulated drives and the daemon.

use std::path::Path;
use std::process::Command;

/// The exit code of a script that lacks a program and names it.
const EXIT_SKIPPED: i32 = 77;

fn proof(script: &str, settings: &[(&str, &str)]) {
    let export = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/export");
    if !testing::needs("io_uring", device::Ring::new().is_ok())
        || !testing::needs("the example export, built", export.exists())
    {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proofs").join(script);
    let mut command = Command::new("bash");
    command.arg(script).env("EXPORT", export).env("KIND", "raw").env("LENGTH", "short");
    let output = command.envs(settings.iter().copied()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A script that lacks a program for one of its parts runs its other parts.
    out.lines().filter_map(|line| line.strip_prefix("skipped: ")).for_each(testing::missing);
    let ended = output.status.code();
    assert!(ended == Some(0) || ended == Some(EXIT_SKIPPED), "{ended:?}: {out}{err}");
}

#[test]
fn fio_verifies_its_writes() {
    proof("fio.sh", &[]);
}

/// The proof over the daemon, among the tests of `cli`, runs ext4 also in the short tier.
#[test]
fn file_systems_on_an_export_are_clean_and_the_same_afterwards() {
    proof("filesystems.sh", &[("SYSTEMS", testing::sized("xfs btrfs", "ext4 xfs btrfs"))]);
}

#[test]
fn postgres_on_an_export_recovers_from_a_crash() {
    proof("postgres.sh", &[]);
}
