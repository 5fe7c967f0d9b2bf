//! The file system a directory is on: its kind, its mount, its space.

use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::scratch;
use super::system_calls::{self, DioAlignment};
use super::text;

/// As this thread sees them: it may be in a mount namespace of its own.
pub(super) const MOUNTS: &str = "/proc/thread-self/mountinfo";

/// Facts about a directory's file system; `None` means not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesystemFacts {
    /// The directory asked about, absolute where it can be resolved.
    pub directory: PathBuf,
    /// What statfs(2) calls the kind of file system.
    pub magic: Option<u64>,
    /// The kind's name, by magic number.
    pub kind: Option<&'static str>,
    /// What is behind the files.
    pub storage_class: StorageClass,
    /// The mount, from /proc/thread-self/mountinfo.
    pub mount: Option<Mount>,
    /// Size of the file system.
    pub total_bytes: Option<u64>,
    /// Space free for this user.
    pub free_bytes: Option<u64>,
    /// Inodes free.
    pub free_inodes: Option<u64>,
    /// Memory alignment O_DIRECT needs here (statx STATX_DIOALIGN); 0 if the file system says no.
    pub direct_memory_align_bytes: Option<u32>,
    /// Offset and length alignment O_DIRECT needs here; 0 if the file system says no.
    pub direct_offset_align_bytes: Option<u32>,
    /// Whether fallocate(2) reserves space here.
    pub preallocation: Option<bool>,
}

/// What holds the bytes of a file system, as far as its kind tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageClass {
    /// A local file system on a block device.
    Device,
    /// Memory: nothing survives power loss.
    Memory,
    /// A union of other file systems, which may be memory.
    Overlay,
    /// Another host, or a user-space or host process behind a protocol.
    Remote,
    /// A kind this product does not know.
    Unknown,
}

/// One row of /proc/thread-self/mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Kind, as the kernel names it.
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// Options of this mount and of the file system, joined by commas.
    pub options: String,
}

/// A directory has less room than a run will need.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: {free_bytes} bytes are free, {needed_bytes} are needed: free some space, or choose a \
     directory with more",
    directory.display()
)]
pub struct NotEnoughSpace {
    /// The directory.
    pub directory: PathBuf,
    /// Free for this user.
    pub free_bytes: u64,
    /// Planned, with the margin.
    pub needed_bytes: u64,
}

impl FilesystemFacts {
    /// Reads the facts of `directory`. To learn alignment and preallocation it makes a small file
    /// there and removes it; where that fails those facts stay unknown.
    pub fn capture(directory: &Path) -> FilesystemFacts {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let status = system_calls::file_system_status(&directory).ok();
        let magic = status.map(|status| status.magic);
        let (kind, storage_class) =
            magic.map_or((None, StorageClass::Unknown), |magic| match kind_of(magic) {
                Some((name, class)) => (Some(name), class),
                None => (None, StorageClass::Unknown),
            });
        let (alignment, preallocation) = trial_file(&directory).unwrap_or_default();
        let mounts = text::read(MOUNTS).unwrap_or_default();
        FilesystemFacts {
            magic,
            kind,
            storage_class,
            mount: mount_of(&mounts, &directory),
            total_bytes: status.map(|status| status.total_bytes),
            free_bytes: status.map(|status| status.free_bytes),
            free_inodes: status.map(|status| status.free_inodes),
            direct_memory_align_bytes: alignment.map(|alignment| alignment.memory_bytes),
            direct_offset_align_bytes: alignment.map(|alignment| alignment.offset_bytes),
            preallocation,
            directory,
        }
    }

    /// The same facts as a JSON object.
    pub fn to_json(&self) -> Value {
        let mount = self.mount.as_ref();
        json!({
            "directory": self.directory.display().to_string(),
            "kind": text::json(self.kind_name()),
            "magic": text::json(self.magic.map(|magic| format!("{magic:#x}"))),
            "storage_class": self.storage_class.name(),
            "mount_point": text::json(mount.map(|mount| mount.mount_point.display().to_string())),
            "mount_source": text::json(mount.map(|mount| mount.source.clone())),
            "mount_options": text::json(mount.map(|mount| mount.options.clone())),
            "total_bytes": text::json(self.total_bytes),
            "free_bytes": text::json(self.free_bytes),
            "free_inodes": text::json(self.free_inodes),
            "direct_memory_align_bytes": text::json(self.direct_memory_align_bytes),
            "direct_offset_align_bytes": text::json(self.direct_offset_align_bytes),
            "preallocation": text::json(self.preallocation),
        })
    }

    /// The kind by the mount table, which tells ext4 from ext2, else by magic number.
    pub fn kind_name(&self) -> Option<String> {
        let by_mount = self.mount.as_ref().map(|mount| mount.kind.clone());
        by_mount.or_else(|| self.kind.map(str::to_owned))
    }
}

impl StorageClass {
    /// The class's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            StorageClass::Device => "device",
            StorageClass::Memory => "memory",
            StorageClass::Overlay => "overlay",
            StorageClass::Remote => "remote",
            StorageClass::Unknown => "unknown",
        }
    }
}

/// Fails if `directory` has less than `planned_bytes` and a tenth more free.
///
/// A file system that does not tell its free space passes: the write itself will then say so.
pub fn require_free_space(directory: &Path, planned_bytes: u64) -> Result<(), NotEnoughSpace> {
    let needed_bytes = planned_bytes.saturating_add(planned_bytes / 10);
    match system_calls::file_system_status(directory) {
        Ok(status) if status.free_bytes < needed_bytes => Err(NotEnoughSpace {
            directory: directory.to_owned(),
            free_bytes: status.free_bytes,
            needed_bytes,
        }),
        _ => Ok(()),
    }
}

/// Waits until the file system of `directory` has written everything back, so that what was written
/// before is not written during what is measured next.
///
/// # Errors
/// The system's reason, if the directory cannot be opened or its file system failed to write.
pub fn write_back(directory: &Path) -> std::io::Result<()> {
    system_calls::sync_file_system(&std::fs::File::open(directory)?)
}

/// Name and class of a file system by the magic number statfs(2) gives (Linux `magic.h`).
pub(super) fn kind_of(magic: u64) -> Option<(&'static str, StorageClass)> {
    use StorageClass::{Device, Memory, Overlay, Remote};
    Some(match magic {
        0x0102_1994 => ("tmpfs", Memory),
        0x8584_58f6 => ("ramfs", Memory),
        0x794c_7630 => ("overlay", Overlay),
        0xef53 => ("ext2/ext3/ext4", Device),
        0x5846_5342 => ("xfs", Device),
        0x9123_683e => ("btrfs", Device),
        0xf2f5_2010 => ("f2fs", Device),
        0xca45_1a4e => ("bcachefs", Device),
        0x2fc1_2fc1 => ("zfs", Device),
        0x6573_5546 => ("fuse", Remote),
        0x0102_1997 => ("9p", Remote),
        0x6969 => ("nfs", Remote),
        0xff53_4d42 => ("cifs", Remote),
        0xfe53_4d42 => ("smb2", Remote),
        0x00c3_6400 => ("ceph", Remote),
        _ => return None,
    })
}

fn trial_file(directory: &Path) -> std::io::Result<(Option<DioAlignment>, Option<bool>)> {
    const TRIAL_BYTES: u64 = 1 << 20;
    let path = scratch::trial_path(directory);
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    let alignment = system_calls::dio_alignment(&file)?;
    Ok((alignment, Some(system_calls::reserve(&file, TRIAL_BYTES).is_ok())))
}

/// The mount a directory is on: the last row with the longest mount point above it, since a later
/// mount hides an earlier one on the same point.
pub(super) fn mount_of(mountinfo: &str, directory: &Path) -> Option<Mount> {
    let above = mountinfo.lines().filter_map(parse_mount);
    above
        .filter(|mount| directory.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.as_os_str().len())
}

/// One row, as proc_pid_mountinfo(5) lays it out: optional fields end at a lone dash.
pub(super) fn parse_mount(row: &str) -> Option<Mount> {
    let (left, right) = row.split_once(" - ")?;
    let mut left = left.split(' ').skip(4);
    let (mount_point, mount_options) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, source) = (right.next()?, right.next()?);
    let options = match right.next() {
        Some(super_options) => format!("{mount_options},{super_options}"),
        None => mount_options.to_owned(),
    };
    Some(Mount {
        mount_point: PathBuf::from(unescape(mount_point)),
        kind: kind.to_owned(),
        source: unescape(source),
        options: without_repeats(&options),
    })
}

fn without_repeats(options: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for option in options.split(',') {
        if !kept.contains(&option) {
            kept.push(option);
        }
    }
    kept.join(",")
}

/// The kernel writes blanks, tabs, newlines and backslashes as three octal digits.
fn unescape(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// Device number of the file system a path is on.
pub(super) fn device_number(path: &Path) -> Option<(u32, u32)> {
    let number = std::fs::metadata(path).ok()?.dev();
    Some((libc::major(number), libc::minor(number)))
}
