//! File systems that break what a durability mode relies on, made here and mounted in a namespace
//! that ends with the test's thread.

use std::path::{Path, PathBuf};
use std::process::Command;

use ackmark::environment::{direct_io, try_flushes};
use ackmark::faults::loop_disk::enter_mount_namespace;

/// Runs `check` in a file system made by `make` and mounted with `options`, or says why it cannot.
fn mounted(make: &[&str], kind: &str, options: &str, check: impl FnOnce(&Path)) {
    // Beside the test's own program: /tmp may be a tmpfs.
    let program = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let image = folder.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(160 << 20).unwrap();
    let point = folder.path().join("mount");
    std::fs::create_dir(&point).unwrap();
    if let Err(error) = enter_mount_namespace() {
        return eprintln!("SKIPPED: {error}");
    }
    let [make, mount] = [
        Step(make.iter().map(PathBuf::from).chain([image.clone()]).collect()),
        Step(
            ["mount", "-t", kind, "-o", options]
                .iter()
                .map(PathBuf::from)
                .chain([image.clone(), point.clone()])
                .collect(),
        ),
    ];
    for step in [make, mount] {
        if let Err(reason) = step.run() {
            return eprintln!("SKIPPED: no {kind} can be mounted here: {reason}");
        }
    }
    check(&point);
    Step(vec!["umount".into(), point]).run().unwrap();
}

struct Step(Vec<PathBuf>);

impl Step {
    fn run(&self) -> Result<(), String> {
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let output = Command::new(&self.0[0]).args(&self.0[1..]).env("PATH", path).output();
        let output = output.map_err(|error| format!("{}: {error}", self.0[0].display()))?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(errors) }
    }
}

/// btrfs with data checksums takes O_DIRECT and buffers (Linux 6.15 and later); without, or on an
/// older kernel, it does not. What the kernel did decides, not the name.
#[test]
fn direct_io_that_the_kernel_buffers_is_refused() {
    mounted(&["mkfs.btrfs", "-q"], "btrfs", "loop", |point| {
        let bare = point.join("without-checksums");
        std::fs::create_dir(&bare).unwrap();
        let unset = Step(vec!["chattr".into(), "+C".into(), bare.clone()]).run();
        if unset.is_ok() {
            direct_io(&bare).unwrap();
        }
        match direct_io(point) {
            Ok(_) => eprintln!("SKIPPED: this kernel's btrfs does not buffer direct writes"),
            Err(error) => {
                let message = error.to_string();
                let named = message.contains(&point.display().to_string());
                assert!(named && message.contains("went through the page cache"), "{message}");
                assert!(message.contains("btrfs"), "{message}");
            }
        }
        let left: Vec<_> = std::fs::read_dir(point).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    });
}

#[test]
fn direct_io_on_a_device_is_not_refused() {
    mounted(&["mkfs.ext4", "-q", "-F"], "ext4", "loop", |point| {
        direct_io(point).unwrap();
        assert_eq!(try_flushes(point), None);
    });
}

#[test]
fn a_mount_without_barriers_withdraws_the_promise() {
    mounted(&["mkfs.ext4", "-q", "-F"], "ext4", "loop,nobarrier", |point| {
        let doubt = try_flushes(point).unwrap();
        assert!(doubt.contains("nobarrier") || doubt.contains("barrier=0"), "{doubt}");
    });
}
