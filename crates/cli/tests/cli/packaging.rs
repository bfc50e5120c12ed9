//! The units of packaging/, checked by the service manager's own tools; the Debian package with its man pages and completions.

use crate::support::{Dir, run_with};
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

/// systemd-udev-settle(8) is deprecated: it waits for the devices that udev knows when it is called, and the disk may come
/// later.
#[test]
fn the_service_waits_for_no_disk_but_those_that_the_documents_drop_in_names() {
    for unit in
        ["freeblock.service", "freeblock-nbd@.service", "freeblock.socket", "freeblock-control.socket"]
    {
        for line in lines(unit) {
            assert!(!line.contains("udev"), "{unit}: {line}");
        }
    }
    let document = std::fs::read_to_string(unit("../docs/SERVE.md")).unwrap();
    let block = |kind: &str| {
        let text = document.split(&format!("```{kind}\n")).nth(1).expect(kind);
        text.split("```").next().unwrap().to_owned()
    };
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        line.trim_matches([' ', '=', '"']).to_owned()
    };
    let device = value(&block("toml"), "device");
    let (wanted, after) = (value(&block("ini"), "Wants"), value(&block("ini"), "After"));
    assert_eq!(wanted, after);
    if testing::needs_program("systemd-escape") {
        let said =
            Command::new("systemd-escape").args(["--path", "--suffix=device", &device]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), wanted);
    }
}

/// Runs a script of bash in a directory, and returns its standard output.
fn bash(directory: &str, script: &str) -> String {
    let output =
        Command::new("bash").args(["-euo", "pipefail", "-c", script]).current_dir(directory).output();
    let output = output.unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}: {out}{err}");
    out.into_owned()
}

/// Makes the package of this test's own binary, in seconds, by the script that `make deb` runs.
#[test]
fn the_debian_package_has_the_command_its_pages_completions_units_and_documents() {
    for program in ["dpkg-deb", "dpkg-shlibdeps", "strip"] {
        if !testing::needs_program(program) {
            return;
        }
    }
    let here = Dir::new();
    let script = unit("deb.sh");
    let make =
        format!("COMPRESSION=none VERSION=9.8.7-1 bash {script} {} .", env!("CARGO_BIN_EXE_freeblock"));
    bash(&here.path(""), &make);
    let [package] = &here.names()[..] else { panic!("{:?}", here.names()) };
    assert!(package.starts_with("freeblock_9.8.7-1_"), "{package}");
    bash(&here.path(""), &format!("dpkg-deb --raw-extract {package} root"));
    let root = here.path("root");
    let read = |name: &str| {
        std::fs::read_to_string(format!("{root}/{name}")).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    for unit in
        ["freeblock.service", "freeblock.socket", "freeblock-control.socket", "freeblock-nbd@.service"]
    {
        read(&format!("lib/systemd/system/{unit}"));
    }
    for file in [
        "usr/lib/sysusers.d/freeblock.conf",
        "usr/lib/tmpfiles.d/freeblock.conf",
        "usr/share/doc/freeblock/SERVE.md",
        "usr/share/freeblock/prometheus/freeblock.rules.yml",
        "usr/share/freeblock/freeblock-ublk.conf",
        "usr/share/freeblock/freeblock-local.conf",
        "usr/share/zsh/vendor-completions/_freeblock",
        "usr/share/fish/vendor_completions.d/freeblock.fish",
        "usr/share/bash-completion/completions/freeblock",
    ] {
        assert!(!read(file).is_empty(), "{file}");
    }
    assert_eq!(read("DEBIAN/conffiles"), "/etc/freeblock/freeblock.toml\n");
    assert!(read("DEBIAN/control").contains("Depends: libc6 (>= "), "{}", read("DEBIAN/control"));
    assert!(read("usr/share/doc/freeblock/copyright").contains("Permission is hereby granted"));
    assert!(!read("usr/share/doc/freeblock/copyright").contains('@'));
    bash(&root, "usr/bin/freeblock --version && md5sum --quiet -c DEBIAN/md5sums");
    bash(&root, "for script in DEBIAN/{postinst,prerm,postrm}; do sh -n $script; test -x $script; done");
    // No file in the package belongs to the builder, and only root can write to them.
    let listed = bash(&here.path(""), &format!("dpkg-deb --contents {package}"));
    for line in listed.lines() {
        assert!(line.contains(" root/root ") && &line[5..6] == "-" && &line[8..9] == "-", "{line}");
    }
}

#[test]
fn each_command_that_help_lists_has_a_man_page() {
    let here = Dir::new();
    run_with(&["man", &here.path("")]).worked();
    let pages = here.names();
    // Visits all commands, as the help texts name them.
    let mut commands = vec![Vec::<String>::new()];
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = run_with(&words).worked();
        let name = [&["freeblock".to_owned()], &command[..]].concat().join("-");
        assert!(pages.contains(&format!("{name}.1")), "{name} has no page");
        seen += 1;
        let page = std::fs::read_to_string(here.path(&format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH EXAMPLES\n.nf\n"), "{name} has no examples:\n{page}");
        // Each option that is in the help is on the page; roff writes a hyphen as `\-`.
        for option in help.lines().filter_map(|line| line.trim_start().split("--").nth(1)) {
            if option.starts_with(|c: char| c.is_ascii_lowercase()) && help.contains(&format!("  --{option}"))
            {
                let name: String =
                    option.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
                let escaped = name.replace('-', "\\-");
                assert!(page.contains(&escaped), "--{name} is not on the page of {command:?}");
            }
        }
        let listed =
            help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or("");
        for line in listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            let sub = line.split_whitespace().next().unwrap();
            if sub != "help" {
                commands.push([&command[..], &[sub.to_owned()]].concat());
            }
        }
    }
    assert_eq!((seen, pages.len()), (pages.len(), pages.len()), "{pages:?}");
    assert!(seen > 30, "{seen}");
}

#[test]
fn the_shells_complete_commands_options_and_their_values() {
    let here = Dir::new();
    for shell in ["bash", "zsh", "fish"] {
        here.file(shell, &run_with(&["completions", shell]).worked());
    }
    let ask = |words: &str, last: usize| {
        let script = format!(
            "source ./bash; COMP_WORDS=({words}); COMP_CWORD={last}; _freeblock freeblock \"${{COMP_WORDS[$COMP_CWORD]}}\" x; echo \"${{COMPREPLY[@]}}\""
        );
        bash(&here.path(""), &script)
    };
    assert_eq!(ask("freeblock scr", 1), "scrub\n");
    assert_eq!(ask("freeblock scrub --dead", 2), "--deadline\n");
    assert_eq!(ask("freeblock completions ''", 2), "-h --help bash zsh fish\n");
    if testing::needs_program("fish") {
        let said = Command::new("fish")
            .args(["-N", "-c", "source ./fish; complete -C 'freeblock scrub --dead'"])
            .current_dir(here.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.starts_with("--deadline"), "{said}");
    }
    if testing::needs_program("zsh") {
        bash(&here.path(""), "zsh -n zsh && head -1 zsh | grep -x '#compdef freeblock'");
    }
}
