//! What a cut leaves is exactly what was synced, or more of what was written, and nothing else.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;

use super::*;

const MIB: u64 = 1 << 20;

/// A disk in a folder of its own; `None`, said aloud, where it cannot be had.
fn disk() -> Option<(tempfile::TempDir, LoopDisk)> {
    if let Err(error) = enter_mount_namespace() {
        eprintln!("SKIPPED: {error}");
        return None;
    }
    // Beside the test's own program: /tmp may be a tmpfs.
    let program = std::env::current_exe().expect("a running program");
    let beside = program.parent().expect("a folder");
    let folder = tempfile::tempdir_in(beside).expect("a temporary folder");
    let image = folder.path().join("image");
    match LoopDisk::create(&image, &folder.path().join("mount"), 32 * MIB) {
        Ok(disk) => Some((folder, disk)),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

#[test]
fn a_cut_keeps_what_was_synced_and_nothing_that_was_not_written() {
    let Some((_folder, mut disk)) = disk() else { return };
    let path = disk.path().join("log");
    let mut file = File::create(&path).expect("mounted");
    file.write_all(&[1; 10_000]).expect("written");
    file.sync_data().expect("synced");
    File::open(disk.path()).expect("the folder").sync_all().expect("its name is synced");
    file.write_all(&[2; 10_000]).expect("written");
    let unsynced = disk.path().join("unsynced");
    fs::write(&unsynced, [3; 5_000]).expect("written");
    assert_eq!(fs::metadata(&path).expect("there").len(), 20_000, "before the cut all is seen");
    disk.cut().expect("cut");
    assert!(file.write_all(&[4; 100]).is_err(), "nothing is written after the cut");
    assert!(file.sync_data().is_err());
    drop(file);
    disk.remount().expect("mounted again");

    let left = fs::read(&path).expect("synced with its name");
    assert!(left.len() >= 10_000, "a synced record is lost: {} bytes", left.len());
    assert_eq!(left[..10_000], [1; 10_000]);
    // The kernel may have written some of the rest by itself: a prefix, or zeros for what it had
    // only made room for.
    assert!(left.len() <= 20_000);
    assert!(left[10_000..].iter().all(|byte| matches!(byte, 0 | 2)), "bytes nobody wrote");
    let unsynced = fs::read(&unsynced).unwrap_or_default();
    assert!(unsynced.iter().all(|byte| matches!(byte, 0 | 3)));
    assert!(left.len() + unsynced.len() < 25_000, "a cut that loses nothing is none");
}

#[test]
fn an_unsynced_overwrite_is_undone() {
    let Some((_folder, mut disk)) = disk() else { return };
    let path = disk.path().join("log");
    fs::write(&path, [1; 8192]).expect("written");
    let file = OpenOptions::new().write(true).open(&path).expect("there");
    file.sync_all().expect("synced");
    File::open(disk.path()).expect("the folder").sync_all().expect("its name is synced");
    file.write_all_at(&[2; 4096], 0).expect("written");
    disk.cut().expect("cut");
    drop(file);
    disk.remount().expect("mounted again");
    let left = fs::read(&path).expect("synced");
    assert_eq!(left[4096..], [1; 4096], "what was not touched stays");
    assert!(left[..4096] == [1; 4096] || left[..4096] == [2; 4096], "old or new, nothing between");
}

#[test]
fn a_disk_takes_its_mount_and_its_loop_device_with_it() {
    let Some((folder, disk)) = disk() else { return };
    let mount_point = disk.path().to_owned();
    let image = folder.path().join("image");
    let mounts = || fs::read_to_string("/proc/thread-self/mounts").expect("procfs");
    assert!(mounts().contains(&*mount_point.to_string_lossy()));
    drop(disk);
    assert!(!mounts().contains(&*mount_point.to_string_lossy()));
    assert!(!image.exists());
    let attached = run("losetup", &["--list", "--output", "BACK-FILE"]).expect("losetup");
    let attached = String::from_utf8_lossy(&attached.stdout).into_owned();
    assert!(!attached.contains(&*folder.path().to_string_lossy()), "{attached}");
}
