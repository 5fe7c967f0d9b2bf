use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::contamination::{HostSample, parse_cpu_line, parse_pressure, parse_throttled};
use super::device::DeviceCounters;
use super::filesystem::{kind_of, mount_of, parse_mount};
use super::kernel::preemption;
use super::limits::{CpuQuota, Limit, cap_ipc_lock, cgroup_directories, parse_cpu_max, soft_limit};
use super::samples::Samples;
use super::text::{chosen, list_count};
use super::*;

const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,discard
30 25 0:27 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=24684100k
40 27 8:1 / /data rw,noatime shared:7 master:2 - xfs /dev/sda1 rw,attr2
41 27 0:50 / /data rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b
42 41 8:17 /sub /data/with\\040blank rw - ext4 /dev/sdb1 rw
";

#[test]
fn out_of_memory_kills_are_read_from_either_counter_file() {
    let events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0";
    assert_eq!(super::oom::kills_in(events), Some(2));
    let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 5";
    assert_eq!(super::oom::kills_in(control), Some(5));
    assert_eq!(super::oom::kills_in("oom_kill_disable 0"), None);
}

#[test]
fn the_deepest_and_latest_mount_holds_a_directory() {
    let kind = |path: &str| mount_of(MOUNTS, Path::new(path)).unwrap().kind;
    assert_eq!(kind("/home/x"), "ext4");
    assert_eq!(kind("/dev/shm/a"), "tmpfs");
    assert_eq!(kind("/data/log"), "overlay", "the later mount hides the earlier one");
    assert_eq!(kind("/database"), "ext4", "/data is no parent of /database");
    assert_eq!(kind("/data/with blank/a"), "ext4");
}

#[test]
fn a_mount_row_gives_source_and_options_once_each() {
    let mount = parse_mount(MOUNTS.lines().nth(3).unwrap()).unwrap();
    assert_eq!(mount.mount_point, PathBuf::from("/data"));
    assert_eq!(mount.source, "/dev/sda1");
    assert_eq!(mount.options, "rw,noatime,attr2");
    assert_eq!(parse_mount("no such row"), None);
}

#[test]
fn device_counters_read_seventeen_fields_and_manage_with_eleven() {
    let stat = "76225 9558 7190282 34244 16337 78806 24590728 81294 0 12288 116040 5218 32 231264 \
                467 963 33";
    let counters = DeviceCounters::parse(stat).unwrap();
    assert_eq!(counters.writes, 16_337);
    assert_eq!(counters.written_bytes, 24_590_728 * 512);
    assert_eq!(counters.flushes, Some(963));
    assert_eq!(counters.flush_time, Some(Duration::from_millis(33)));

    let old = DeviceCounters::parse("1 2 3 4 5 6 7 8 9 10 11").unwrap();
    assert_eq!((old.writes, old.flushes), (5, None));
    assert_eq!(counters.since(&old).flushes, None);
    assert_eq!(counters.since(&counters).to_json()["flushes"], 0);
    assert_eq!(DeviceCounters::parse("1 2 x"), None);
}

#[test]
fn stolen_time_is_the_eighth_field_and_guest_time_counts_once() {
    let stat = "cpu  100 0 50 800 20 0 10 20 30 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
    assert_eq!(parse_cpu_line(stat), Some((1000, 20)));
    assert_eq!(parse_cpu_line("cpu  1 2 3"), None);
}

#[test]
fn contamination_is_graded_by_the_stolen_share() {
    let sample = |ticks, steal| HostSample {
        cpu_ticks: Some(ticks),
        steal_ticks: Some(steal),
        cpu_pressure: Some(Duration::from_micros(ticks)),
        memory_pressure: None,
        io_pressure: None,
        throttled: None,
    };
    let before = sample(1000, 10);
    let graded = |steal: u64| sample(2000, 10 + steal).since(&before).steal_level().unwrap();
    assert_eq!(graded(10), StealLevel::Clean);
    assert_eq!(graded(50), StealLevel::Noted);
    assert_eq!(graded(150), StealLevel::Doubtful);
    assert_eq!(graded(151), StealLevel::Bad);

    let json = before.since(&before).to_json();
    assert_eq!(json["steal_percent"], "unknown", "no time passed");
    assert_eq!(json["memory_pressure_us"], "unknown");
    assert_eq!(json["cpu_pressure_us"], 0);
}

#[test]
fn pressure_is_the_total_of_the_some_line() {
    let text = "some avg10=0.43 avg60=0.91 avg300=1.04 total=20312530\nfull avg10=0.00 total=7\n";
    assert_eq!(parse_pressure(text), Some(Duration::from_micros(20_312_530)));
    assert_eq!(parse_pressure(""), None);
}

#[test]
fn limits_are_read_from_their_rows() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max locked memory         8388608              8388608              bytes     \n\
                  Max open files            unlimited            unlimited            files     \n";
    assert_eq!(soft_limit(limits, "Max locked memory"), Some(Limit::At(8_388_608)));
    assert_eq!(soft_limit(limits, "Max open files"), Some(Limit::Unlimited));
    assert_eq!(soft_limit(limits, "Max stack size"), None);
    assert_eq!(cap_ipc_lock("CapEff:\t0000000000004000\n"), Some(true));
    assert_eq!(cap_ipc_lock("CapEff:\t00000000a80425fb\n"), Some(false));
    assert!(Limit::At(u64::MAX) < Limit::Unlimited);
}

#[test]
fn cpu_quotas_are_in_cpus() {
    assert_eq!(parse_cpu_max("150000 100000"), Some(CpuQuota::Cpus(1.5)));
    assert_eq!(parse_cpu_max("max 100000"), Some(CpuQuota::Unlimited));
    assert_eq!(parse_cpu_max("-1 100000"), Some(CpuQuota::Unlimited));
    assert_eq!(parse_cpu_max("1 0"), None);
    assert!(CpuQuota::Cpus(64.0) < CpuQuota::Unlimited);
}

#[test]
fn throttling_is_summed_up_the_tree_in_either_version() {
    let own = "usage_usec 9\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n";
    let parent = "usage_usec 9\nnr_periods 90\nnr_throttled 40\nthrottled_usec 1500\n";
    let v1 = "nr_periods 90\nnr_throttled 40\nthrottled_time 2500000\n";
    let micros = Duration::from_micros;
    for (stats, expected) in [
        (vec![own, parent], Some(micros(1500))),
        (vec![parent, own, parent], Some(micros(3000))),
        (vec![v1, v1], Some(micros(5000))),
        (vec!["usage_usec 9\n"], None),
        (vec![], None),
    ] {
        let stats = stats.into_iter().map(str::to_owned);
        assert_eq!(parse_throttled(stats), expected);
    }
}

#[test]
fn cpus_are_counted_by_the_lowest_of_affinity_and_quota() {
    let mut environment = Environment::capture(Path::new("/dev/shm"));
    for (allowed, quota, expected) in [
        (Some(8), Some(CpuQuota::Cpus(1.5)), Some(1.5)),
        (Some(1), Some(CpuQuota::Cpus(1.5)), Some(1.0)),
        (Some(8), Some(CpuQuota::Unlimited), Some(8.0)),
        (None, Some(CpuQuota::Cpus(0.5)), Some(0.5)),
        (Some(2), None, Some(2.0)),
        (None, None, None),
    ] {
        environment.cpu.allowed_count = allowed;
        environment.limits.cgroup_cpus = quota;
        assert_eq!(environment.effective_cpus(), expected, "{allowed:?} {quota:?}");
    }
    environment.cpu.allowed_count = Some(8);
    environment.limits.cgroup_cpus = Some(CpuQuota::Cpus(1.5));
    let codes: Vec<_> = environment.warnings(5).iter().map(Warning::code).collect();
    assert!(codes.contains(&"oversubscribed") && codes.contains(&"cpu_quota"), "{codes:?}");
    assert_eq!(environment.to_json()["effective_cpus"], 1.5);
}

#[test]
fn preloaded_libraries_are_listed_from_both_places() {
    use super::flushes::preloaded;
    assert!(preloaded("", "# none\n").is_empty());
    assert_eq!(preloaded("/a.so:/b.so /c.so", "/d.so # why\n\n/e.so\n").len(), 5);
    let mut environment = Environment::capture(Path::new("/dev/shm"));
    environment.preloaded = preloaded("libeatmydata.so", "");
    let first = environment.warnings(1).first().map(Warning::to_string);
    assert!(first.is_some_and(|text| text.contains("libeatmydata.so")));
    assert_eq!(environment.to_json()["preloaded"][0], "libeatmydata.so");
}

#[test]
fn a_promise_is_kept_only_where_the_flushes_it_needs_are_seen() {
    use super::flushes::CacheFacts;
    use crate::types::DurabilityMode::{DirectDsync, Fsync};
    let path = |write_cache: &str, fua| SyncPath {
        storage_class: StorageClass::Device,
        kind: "ext4".to_owned(),
        no_barrier: None,
        device: Some(CacheFacts {
            name: "sda".to_owned(),
            write_cache: Some(write_cache.to_owned()),
            force_unit_access: Some(fua),
        }),
    };
    let sent = |writes, flushes| {
        let counters = DeviceCounters::parse("0 0 0 0 0 0 0 0 0 0 0").unwrap();
        Some(DeviceCounters { writes, flushes, ..counters })
    };
    let (back, through) = (path("write back", false), path("write through", false));
    let forcing = path("write back", true);
    let none = "no flush can be counted";
    let few = "where the syncs need 100";
    let table = [
        (back.clone(), Fsync, sent(500, Some(100)), None),
        (back.clone(), Fsync, sent(500, Some(99)), Some(few)),
        (back.clone(), Fsync, sent(500, Some(0)), Some("sda was sent 0 flushes")),
        (back.clone(), Fsync, sent(500, None), Some(none)),
        (back.clone(), Fsync, None, Some(none)),
        (back.clone(), DirectDsync, sent(500, Some(0)), Some(few)),
        (forcing.clone(), DirectDsync, sent(100, Some(0)), None),
        (forcing.clone(), DirectDsync, sent(40, Some(59)), Some("99 flushes and writes")),
        (forcing, Fsync, sent(500, Some(0)), Some(few)),
        (through, Fsync, sent(500, Some(0)), None),
        (SyncPath { device: None, ..back.clone() }, Fsync, None, Some(none)),
        (
            SyncPath { no_barrier: Some("barrier=0".to_owned()), ..back.clone() },
            Fsync,
            sent(500, Some(500)),
            Some("mounted with `barrier=0`"),
        ),
        (
            SyncPath { storage_class: StorageClass::Overlay, ..back.clone() },
            Fsync,
            sent(500, Some(500)),
            Some(none),
        ),
    ];
    for (path, mode, sent, expected) in table {
        let doubt = path.doubt(mode, 100, sent.as_ref());
        match expected {
            None => assert_eq!(doubt, None, "{path:?} {sent:?}"),
            Some(part) => assert!(doubt.as_ref().is_some_and(|it| it.contains(part)), "{doubt:?}"),
        }
    }
}

#[test]
fn a_mount_option_that_turns_flushes_off_is_known_by_any_of_its_names() {
    let mut facts = FilesystemFacts::capture(Path::new("/dev/shm"));
    for (options, expected) in [
        ("rw,nobarrier", Some("nobarrier")),
        ("rw,barrier=0,relatime", Some("barrier=0")),
        ("rw,barrier=1", None),
        ("rw", None),
    ] {
        let row = format!("27 1 259:2 / / rw - ext4 /dev/sda1 {options}");
        facts.mount = parse_mount(&row);
        assert_eq!(facts.no_barrier(), expected, "{options}");
    }
}

#[test]
fn a_control_group_counts_with_its_ancestors() {
    let groups = "4:memory:/a/b\n2:cpuacct,cpu:/\n0::/slice\n";
    let shown = |controller| {
        cgroup_directories(groups, controller)
            .into_iter()
            .map(|path| path.display().to_string().trim_end_matches('/').to_owned())
            .collect::<Vec<_>>()
    };
    let memory = ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"];
    assert_eq!(shown("memory"), memory);
    assert_eq!(shown("cpu"), ["/sys/fs/cgroup/cpu"]);
    assert_eq!(shown("")[0], "/sys/fs/cgroup/slice");
    assert!(shown("pids").is_empty());
}

#[test]
fn processor_facts_come_from_cpuinfo_and_status() {
    let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nmicrocode\t: 0xa0\n\
                   flags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\nmodel name\t: Other\n";
    let facts = CpuFacts::from_texts(cpuinfo, "Cpus_allowed_list:\t0-2,8\n");
    assert_eq!(facts.model.as_deref(), Some("Some CPU @ 3 GHz"));
    assert_eq!(facts.hypervisor, Some(true));
    assert_eq!(facts.allowed_count, Some(4));

    let bare = CpuFacts::from_texts("", "");
    assert_eq!(bare.to_json()["hypervisor"], "unknown");
    assert_eq!(bare.to_json()["allowed_count"], "unknown");
}

#[test]
fn lists_and_choices_are_parsed() {
    assert_eq!(list_count("0-3,8"), Some(5));
    assert_eq!(list_count("0"), Some(1));
    assert_eq!(list_count("3-1"), None);
    assert_eq!(list_count(""), None);
    assert_eq!(chosen("none [mq-deadline] kyber"), Some("mq-deadline"));
    assert_eq!(chosen("none"), Some("none"));
    assert_eq!(chosen("a b"), None);
}

#[test]
fn the_preemption_model_in_force_beats_the_one_compiled_in() {
    let dynamic = "#1 SMP PREEMPT_DYNAMIC Mon";
    let table = [
        (Some("none voluntary (full) lazy"), Some("preempt=none"), Some(dynamic), "full"),
        (None, Some("quiet preempt=voluntary"), Some(dynamic), "voluntary"),
        (None, Some("quiet"), Some(dynamic), "dynamic (model in force not readable)"),
        (None, None, Some("#1 SMP PREEMPT_RT Mon"), "rt"),
        (None, None, Some("#1 SMP PREEMPT Mon"), "full"),
        (None, None, Some("#1 SMP Mon"), "none or voluntary"),
    ];
    for (debugfs, command_line, version, expected) in table {
        assert_eq!(preemption(debugfs, command_line, version).as_deref(), Some(expected));
    }
    assert_eq!(preemption(None, None, None), None);
}

#[test]
fn use_of_a_process_is_read_past_an_odd_name() {
    let stat = "42 (a) b (c) S 1 1 1 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100 0";
    let status = "Name:\ta\nVmHWM:\t    2048 kB\nnonvoluntary_ctxt_switches:\t7\n";
    let usage = ProcessUse::from_texts(status, stat, "rchar: 1\nwrite_bytes: 4096\n");
    assert_eq!(usage.peak_memory_bytes, Some(2 << 20));
    assert_eq!(usage.cpu_time, Some(Duration::from_secs(3)));
    assert_eq!(usage.written_bytes, Some(4096));
    assert_eq!(usage.involuntary_switches, Some(7));

    let own = ProcessUse::of(std::process::id());
    assert!(own.peak_memory_bytes.is_some_and(|bytes| bytes > 0));
    let gone = ProcessUse::from_texts("", "", "");
    assert_eq!(gone.to_json()["cpu_seconds"], "unknown");
}

#[test]
fn tmpfs_is_refused_though_it_accepts_o_direct() {
    let error = direct_io(Path::new("/dev/shm")).unwrap_err();
    assert!(matches!(error.reason, DirectIoReason::Memory("tmpfs")), "{error}");
    assert_eq!(
        error.to_string(),
        "/dev/shm: O_DIRECT is not available: it is on tmpfs: no device behind it: use durability \
         page-cache or fsync, or a directory on a block device"
    );
}

#[test]
fn a_missing_directory_is_named() {
    let error = direct_io(Path::new("/nonexistent/data")).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/data: O_DIRECT is not available: "));
}

#[test]
fn kinds_without_a_device_are_refused_by_magic_number() {
    use super::direct_io::refuse_by_kind;
    for magic in [0x0102_1994, 0x8584_58f6, 0x6573_5546, 0x0102_1997, 0x6969] {
        assert!(refuse_by_kind(kind_of(magic)).is_err(), "{magic:#x}");
    }
    for magic in [0xef53, 0x5846_5342, 0x794c_7630, 1] {
        assert!(refuse_by_kind(kind_of(magic)).is_ok(), "{magic:#x}");
    }
}

#[test]
fn refusals_of_io_uring_name_what_to_change() {
    let message = |errno| {
        let source = io::Error::from_raw_os_error(errno);
        let told = |text: &str| Some(text.to_owned());
        uring::classify(source, told("2"), told("5.10.0"), told("65536"), 7).to_string()
    };
    let forbidden = message(libc::EPERM);
    assert!(forbidden.contains("kernel.io_uring_disabled = 2"), "{forbidden}");
    assert!(forbidden.contains("seccomp"), "{forbidden}");
    assert!(message(libc::ENOSYS).contains("kernel 5.10.0"));
    assert!(
        message(libc::ENOMEM).contains("for 7 rings")
            && message(libc::ENOMEM).contains("65536 bytes")
            && message(libc::ENOMEM).contains("`ulimit -l 224`")
    );
    let low = uring::require_locked_memory(Some(Limit::At(65_536))).unwrap_err().to_string();
    for part in ["65536 bytes", "512 KiB", "RLIMIT_MEMLOCK", "ulimit -l 512"] {
        assert!(low.contains(part), "{low}");
    }
    for enough in [None, Some(Limit::At(512 << 10)), Some(Limit::Unlimited)] {
        assert!(uring::require_locked_memory(enough).is_ok(), "{enough:?}");
    }
    assert_eq!(message(libc::EINVAL), "io_uring_setup failed");
}

#[test]
fn percentiles_are_told_only_as_deep_as_the_sample() {
    let samples = |count: u64| (1..=count).map(Duration::from_nanos).collect::<Samples>();
    assert_eq!(samples(0).median_ns(), None);
    assert_eq!(samples(3).median_ns(), Some(2));
    assert_eq!(samples(999).p99_ns(), None);
    assert_eq!(samples(1000).p99_ns(), Some(990));
    assert_eq!(samples(1000).quantile_ns(0.999), None);
    assert_eq!(samples(3).merged(samples(3)).count(), 6);
    assert_eq!(samples(3).to_json()["p99_ns"], "unknown");
}

#[test]
fn an_environment_of_memory_says_so_and_misses_no_field() {
    let environment = Environment::capture(Path::new("/dev/shm"));
    let codes: Vec<_> = environment.warnings(1_000_000).iter().map(Warning::code).collect();
    assert!(codes.contains(&"memory"), "{codes:?}");
    assert!(codes.contains(&"oversubscribed"), "{codes:?}");

    let json = environment.to_json();
    assert_eq!(json["device"], "unknown");
    assert_eq!(json["direct_io"]["available"], false);
    assert_eq!(json["filesystem"]["storage_class"], "memory");
    assert_eq!(json["fingerprint"].as_str().unwrap().len(), 16);
    assert_eq!(
        environment.fingerprint(),
        Environment::capture(Path::new("/dev/shm")).fingerprint()
    );
}

#[test]
fn write_through_and_write_back_are_told_apart() {
    let mut environment = Environment::capture(Path::new("/dev/shm"));
    let codes = |environment: &Environment| {
        environment.warnings(1).iter().map(Warning::code).collect::<Vec<_>>()
    };
    let mut device = DeviceFacts::capture(Path::new("/")).unwrap_or_else(bare_device);
    device.name = "nvme0n1".to_owned();
    device.driver = Some("nvme".to_owned());
    device.write_cache = Some("write back".to_owned());
    environment.device = Some(device.clone());
    assert!(codes(&environment).contains(&"volatile_write_cache"));
    assert!(!codes(&environment).contains(&"virtual_disk"));

    device.write_cache = Some("write through".to_owned());
    device.driver = Some("virtio_blk".to_owned());
    assert!(device.drops_flushes());
    environment.device = Some(device);
    assert!(codes(&environment).contains(&"write_through"));
    assert!(codes(&environment).contains(&"virtual_disk"));
}

fn bare_device() -> DeviceFacts {
    DeviceFacts {
        name: "sda".to_owned(),
        partition: None,
        driver: None,
        model: None,
        firmware: None,
        below: Vec::new(),
        rotational: None,
        scheduler: None,
        write_cache: None,
        force_unit_access: None,
        logical_block_bytes: None,
        physical_block_bytes: None,
        atomic_write_bytes_max: None,
        request_count_max: None,
        request_kibibytes_max: None,
        writeback_throttle_us: None,
        no_merges: None,
        completion_affinity: None,
        polled: None,
    }
}

#[test]
fn more_space_than_there_is_is_refused_with_both_numbers() {
    require_free_space(Path::new("/"), 0).unwrap();
    let error = require_free_space(Path::new("/"), u64::MAX / 2).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("/: "), "{message}");
    assert!(message.contains(&error.needed_bytes.to_string()), "{message}");
}
