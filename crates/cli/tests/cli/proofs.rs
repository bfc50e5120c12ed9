//! The proofs with independent programs (proofs/*.sh), short, over the daemon with a scrub and a backup at work. `make
//! proofs-long` runs them long, over drives in real time too.

use std::path::Path;
use std::process::Command;

/// The exit code of a script that misses a program, which it names.
const SKIPPED_EXIT_CODE: i32 = 77;

fn proof(script: &str, settings: &[(&str, &str)]) {
    if device::Ring::new().is_err() {
        testing::missing("io_uring");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proofs").join(script);
    let mut command = Command::new("bash");
    command.arg(script).env("FREEBLOCK", env!("CARGO_BIN_EXE_freeblock"));
    command.env("KIND", "serve").env("LENGTH", "short").envs(settings.iter().copied());
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A script that lacks a program for one of its parts continues with the others.
    out.lines().filter_map(|line| line.strip_prefix("skipped: ")).for_each(testing::missing);
    let ended = output.status.code();
    assert!(ended == Some(0) || ended == Some(SKIPPED_EXIT_CODE), "{ended:?}: {out}{err}");
}

#[test]
fn fio_verifies_its_writes_beside_tasks() {
    proof("fio.sh", &[]);
}

#[test]
fn a_file_system_beside_tasks_is_clean_and_so_is_its_restored_backup() {
    proof("filesystems.sh", &[("SYSTEMS", "ext4")]);
}

/// The figures of a short run are not held against a bound; the script fails if no browser follows the page.
#[test]
fn the_benchmark_of_the_page_runs() {
    proof("page.sh", &[]);
}

/// The figures of a short run are not held against a bound; the script fails if what was read is not what was written.
#[test]
fn programs_at_the_background_export_and_at_a_snapshot_read_what_was_written() {
    proof("door.sh", &[("FLOOR", "8MB/s"), ("PROGRAMS", "nbdcopy pg"), ("RATE", "10"), ("MINUTES", "0")]);
}

/// The figures of a short run are not held against a bound; the script fails if a disk is not scrubbed or its reads fail.
#[test]
fn the_benchmark_of_many_disks_runs() {
    proof("disks.sh", &[("DISKS", "6")]);
}

/// Runs only if the binary has ublk, which `make test` does not build. It takes some minutes: `cargo test -p freeblock-cli
/// --features ublk --test cli ublk`.
#[test]
#[cfg(feature = "ublk")]
fn a_disk_is_a_block_device_of_a_guests_kernel_by_ublk() {
    proof("ublk.sh", &[]);
}

#[test]
fn postgres_beside_tasks_recovers_and_so_does_its_restored_backup() {
    proof("postgres.sh", &[]);
}

#[test]
fn a_proof_unmounts_when_no_process_has_anything_open_there() {
    const SCRIPT: &str = r#"
        . "$0"
        need_root
        mkdir "$WORK/mnt"
        mount -t tmpfs none "$WORK/mnt" || skip "tmpfs cannot be mounted here"
        (cd "$WORK/mnt" && exec sleep 1) &
        while [ -z "$(holders "$WORK/mnt")" ]; do sleep 0.01; done
        unmount "$WORK/mnt"
        mountpoint -q "$WORK/mnt" && fail "it is still mounted"
        wait
    "#;
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proofs/lib.sh");
    let output = Command::new("bash").args(["-c", SCRIPT]).arg(lib).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    out.lines().filter_map(|line| line.strip_prefix("skipped: ")).for_each(testing::missing);
    assert!(matches!(output.status.code(), Some(0 | SKIPPED_EXIT_CODE)), "{out}{err}");
}
