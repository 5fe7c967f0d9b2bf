//! The program as a user meets it when something is wrong: exit status, one message on standard
//! error, nothing on standard output, nothing left behind.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

fn ackmark(arguments: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ackmark"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// The one message of a refused command.
fn refused(arguments: &[&OsStr], status: i32) -> String {
    let output = ackmark(arguments);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{message}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    let message: String = message.lines().filter(|line| !line.contains("debug build")).collect();
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn text(value: &str) -> &OsStr {
    OsStr::new(value)
}

#[test]
fn a_bad_workload_is_refused_before_anything_starts() {
    let message = refused(&[text("run"), text("fixtures/workloads/bad/rate-zero.toml")], 2);
    assert!(
        message.starts_with("ackmark: fixtures/workloads/bad/rate-zero.toml:3:18: "),
        "{message}"
    );
    let message = refused(&[text("run"), text("no-such.toml")], 2);
    assert!(message.starts_with("ackmark: cannot read no-such.toml: No such file"), "{message}");
    let message = refused(&[text("run"), text("--engine"), text("epoll")], 2);
    assert!(message.contains("[possible values: uring, glommio]"), "{message}");
}

/// `run` with a data directory, results in a folder of its own.
fn run_in(data: &Path, workload: &str) -> (String, tempfile::TempDir) {
    let out = tempfile::tempdir().expect("a temporary folder");
    let arguments = [
        text("run"),
        text(workload),
        text("--data"),
        data.as_os_str(),
        text("--out"),
        out.path().as_os_str(),
    ];
    (refused(&arguments, 2), out)
}

#[test]
fn a_missing_data_directory_is_named() {
    let (message, _out) = run_in(Path::new("/no/such/dir"), "fixtures/workloads/floor.toml");
    assert!(message.contains("data directory /no/such/dir"), "{message}");
    assert!(message.contains("No such file or directory"), "{message}");
}

#[test]
fn a_data_directory_that_is_a_file_is_named_even_if_its_name_is_not_utf_8() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join(OsStr::from_bytes(b"data\xff"));
    fs::write(&file, "").expect("a writable folder");
    let (message, _out) = run_in(&file, "fixtures/workloads/floor.toml");
    assert!(message.contains("Not a directory"), "{message}");
}

#[test]
fn a_full_data_directory_is_told_both_numbers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let workload = folder.path().join("huge.toml");
    let text = "name = \"huge\"\n[load]\nduration = \"24h\"\n[matrix]\nrate = [\"1G/s\"]\n";
    fs::write(&workload, text).expect("a writable folder");
    let (message, _out) = run_in(folder.path(), workload.to_str().expect("a plain path"));
    assert!(message.contains("bytes are free"), "{message}");
    assert!(message.contains("are needed"), "{message}");
    let left: Vec<_> = fs::read_dir(folder.path()).expect("readable").collect();
    assert_eq!(left.len(), 1, "only the workload is left: {left:?}");
}

#[test]
fn a_direct_mode_on_memory_is_refused_by_name() {
    let memory = Path::new("/dev/shm");
    let Ok(folder) = tempfile::tempdir_in(memory) else {
        println!("SKIPPED: no writable /dev/shm here");
        return;
    };
    let (message, _out) = run_in(folder.path(), "fixtures/workloads/floor.toml");
    assert!(message.contains("durability direct-dsync is asked for"), "{message}");
    assert!(message.contains(&folder.path().display().to_string()), "{message}");
    assert!(message.contains("tmpfs"), "{message}");
}

#[test]
fn an_unwritable_result_folder_is_found_before_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a writable folder");
    let arguments = [text("run"), text("--out"), file.as_os_str()];
    let message = refused(&arguments, 2);
    assert!(message.contains("cannot create"), "{message}");
    assert!(message.contains("Not a directory"), "{message}");
}

#[test]
fn several_durability_modes_cannot_be_driven_at_one_cluster() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let arguments = [
        text("drive"),
        text("fixtures/workloads/default.toml"),
        text("--bootstrap"),
        text("127.0.0.1:9"),
        text("--out"),
        out.path().as_os_str(),
    ];
    let message = refused(&arguments, 2);
    assert!(message.contains("matrix.durability lists 6 values"), "{message}");
}

#[test]
fn a_stored_result_is_printed_again() {
    let output = ackmark(&[text("report"), text("fixtures/results/v1/paced.json")]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("where the ack p50 went"));
    let message = refused(&[text("report"), text("Cargo.toml")], 2);
    assert!(message.contains("Cargo.toml: not a result"), "{message}");
}

/// Every kind of file that is handed to the program, after whatever can happen to one.
#[test]
fn a_damaged_file_is_named_in_one_message() {
    let node = "node_id = 1\ncluster_id = \"c\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"d\"\n";
    let broker = format!("{node}controllers = \"127.0.0.1:9093\"\n[log]\ndurability = \"fsync\"\n");
    let result = fs::read("fixtures/results/v1/paced.json").unwrap();
    let workload = fs::read("fixtures/workloads/gate.toml").unwrap();
    let kinds: [(&[&str], &[u8]); 7] = [
        (&["run"], &workload),
        (&["drive", "--bootstrap", "127.0.0.1:1"], &workload),
        (&["broker", "--config"], broker.as_bytes()),
        (&["controller", "--config"], node.as_bytes()),
        (&["report"], &result),
        (&["compare", "fixtures/results/v1/paced.json"], &result),
        (&["trend"], &result),
    ];
    for (command, whole) in kinds {
        let half = whole.len() / 2;
        let no_text = [&whole[..half], &b"\xff"[..], &whole[half..]].concat();
        let mut damages = vec![Some(&b""[..]), Some(&no_text), None];
        // Half of a workload may be one.
        if whole != workload {
            damages.push(Some(&whole[..half]));
        }
        for damage in damages {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("damaged");
            match damage {
                Some(bytes) => fs::write(&file, bytes).unwrap(),
                None => fs::create_dir(&file).unwrap(),
            }
            let mut arguments: Vec<&OsStr> = command.iter().map(|word| text(word)).collect();
            arguments.push(file.as_os_str());
            let message = refused(&arguments, 2);
            assert!(message.contains(&*file.to_string_lossy()), "{command:?}: {message}");
        }
    }
}

/// As the shell would see them: nothing is run.
#[test]
fn make_takes_folders_with_a_space() {
    let targets = [
        "run",
        "quick",
        "bench-floor",
        "bench-controller",
        "bench-engines",
        "throughput",
        "torture",
        "experiments",
        "experiment-durability",
        "probe",
        "ci-demo",
        "gate-calibration",
    ];
    let mut make = Command::new("make");
    make.args(["--dry-run", "DATA=a d", "OUT=a o"]).args(targets);
    let output = make.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let commands = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(commands.matches("\"a d\"").count() >= targets.len(), "{commands}");
    let unquoted = commands.replace("\"a d\"", "").replace("\"a o\"", "");
    assert!(!unquoted.contains("a d") && !unquoted.contains("a o"), "{commands}");
}
