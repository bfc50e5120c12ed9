//! The units of packaging/, checked by the service manager's own tools.

use std::path::Path;
use std::process::Command;

fn unit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    path.to_str().unwrap().to_owned()
}

/// Returns the text of a unit without its comments.
fn lines(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(unit(name)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// `systemd-analyze security` counts exposure from 0 to 10; the threshold is in tenths.
#[test]
fn the_exposure_of_the_service_is_below_three() {
    let security = || {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true"]);
        command
    };
    match security().arg("--help").output() {
        Ok(help) if String::from_utf8_lossy(&help.stdout).contains("--offline") => {}
        _ => return testing::missing("systemd-analyze with --offline (systemd 250)"),
    }
    let below = |tenths: &str| {
        let output = security().arg(format!("--threshold={tenths}")).arg(unit("freeblock.service")).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is, said) = below("29");
    assert!(is, "{said}");
    assert!(!below("1").0, "the threshold is heeded");
}

#[test]
fn the_service_has_no_capability_and_writes_where_it_must_only() {
    let lines = lines("freeblock.service");
    let has = |line: &str| lines.iter().any(|other| other == line);
    for line in [
        "UMask=0077",
        "CapabilityBoundingSet=",
        "NoNewPrivileges=yes",
        "RestrictSUIDSGID=yes",
        "ProtectClock=yes",
        "ProtectSystem=strict",
        "StateDirectoryMode=0700",
        "ReadWritePaths=-/var/backups/freeblock",
        "ExecReload=/bin/kill -HUP $MAINPID",
    ] {
        assert!(has(line), "{line}");
    }
    let example = std::fs::read_to_string(unit("../docs/freeblock.toml")).unwrap();
    assert!(example.contains("# targets = [\"/var/backups/freeblock\"]"), "the same directory in both");
}
