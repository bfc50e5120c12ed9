//! Files that users name for tasks.

use super::daemon::{confined, start};
use super::{TASKS, refused, started, until};
use serde_json::{Value, json};
use server::control::Roles;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const WRITER: u32 = 65_002;

fn roles() -> Roles {
    Roles { write_uids: vec![WRITER], ..Roles::default() }
}

/// Posts a task as user `WRITER`; returns the status code and the body of the answer, or `None` if the
/// test cannot change the user.
fn as_writer(socket: &Path, body: &Value) -> Option<(u16, String)> {
    let mut command = Command::new("curl");
    std::os::unix::process::CommandExt::uid(&mut command, WRITER);
    command.args(["-sS", "-w", "\n%{http_code}", "--unix-socket"]).arg(socket);
    command.arg(format!("http://x{TASKS}")).arg(format!("-d{body}"));
    let output =
        command.output().inspect_err(|why| testing::missing(&format!("curl as another user: {why}"))).ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, code) = said.rsplit_once('\n').unwrap();
    Some((code.parse().unwrap(), body.to_owned()))
}

/// Needs root, to connect as another user.
#[test]
fn without_targets_only_root_and_the_daemons_user_name_files() {
    let Some(daemon) = started(start("anywhere", roles())) else { return };
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&daemon.directory, open).unwrap();
    let image = daemon.path("image");
    for body in [
        json!({ "kind": "backup", "to": image }),
        json!({ "kind": "replica", "to": image, "force": true }),
        json!({ "kind": "restore", "from": ["/etc/shadow"] }),
        json!({ "kind": "reorganize", "plan": "/etc/shadow" }),
        json!({ "kind": "scrub", "checksums": "/root" }),
    ] {
        let Some((code, said)) = as_writer(&daemon.socket, &body) else { return drop(daemon.end()) };
        assert!(code == 403 && said.contains("`targets`"), "{body}: {code} {said}");
    }
    let (code, said) = as_writer(&daemon.socket, &json!({ "kind": "scrub", "sectors": 8 })).unwrap();
    assert_eq!(code, 201, "{said}");
    let control = daemon.client();
    until(&control, 1, "done");
    control.post(TASKS, &json!({ "kind": "backup", "to": image })).unwrap();
    until(&control, 2, "done");
    daemon.end();
}

/// Needs root, to connect as another user.
#[test]
fn a_writer_reaches_no_file_outside_of_the_targets() {
    let Some(daemon) = started(confined("confined", roles(), &["target"])) else { return };
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&daemon.directory, open).unwrap();
    let path = |name: &str| daemon.path(name);
    let control = daemon.client();
    // A task is started, because the journal is created with the first task.
    control.post(TASKS, &json!({ "kind": "scrub", "sectors": 8 })).unwrap();
    until(&control, 1, "done");
    std::fs::create_dir(path("target")).unwrap();
    std::fs::create_dir(path("other")).unwrap();
    std::fs::write(path("other/keys"), "mine").unwrap();
    symlink(path("other"), path("target/away")).unwrap();
    symlink(path("other/keys"), path("target/keys")).unwrap();
    std::fs::hard_link(path("disk"), path("target/disk")).unwrap();
    std::fs::hard_link(path("state/tasks.journal"), path("target/journal")).unwrap();
    // These paths are refused to each user by their text alone, before a task is started.
    for to in ["other/keys", "target/../other/keys", "state/tasks.journal", "disk", "targets"] {
        let body = json!({ "kind": "replica", "to": path(to), "force": true });
        let Some((code, said)) = as_writer(&daemon.socket, &body) else { return drop(daemon.end()) };
        assert!(code == 400 && said.contains("\"field\":\"to\""), "{to}: {code} {said}");
        assert_eq!(refused(control.post(TASKS, &body)).0, 400, "{to}");
    }
    // These paths are refused when the task opens them.
    let mut id = 1;
    for to in ["target/keys", "target/away/keys", "target/away/new", "target/disk", "target/journal"] {
        let body = json!({ "kind": "replica", "to": path(to), "force": true });
        let (code, said) = as_writer(&daemon.socket, &body).unwrap();
        assert_eq!(code, 201, "{said}");
        id += 1;
        let task = loop {
            let task = control.get(&format!("{TASKS}/{id}")).unwrap();
            if task["state"] == "failed" {
                break task;
            }
            assert!(task["state"] != "paused" && task["done"] == 0, "{task}");
            std::thread::yield_now();
        };
        let reason = task["reason"].as_str().unwrap().to_owned();
        assert!(
            ["link", "a served disk", "state directory", "the disk itself"]
                .iter()
                .any(|why| reason.contains(why)),
            "{to}: {reason}"
        );
    }
    assert_eq!(std::fs::read(path("other/keys")).unwrap(), b"mine");
    assert!(!Path::new(&path("other/new")).exists());
    let (code, said) =
        as_writer(&daemon.socket, &json!({ "kind": "backup", "to": path("target/image") })).unwrap();
    assert_eq!(code, 201, "{said}");
    until(&control, id + 1, "done");
    daemon.end();
}
