use super::*;

const WITH_SYNC: &str = r#"fio: warning: something odd about this host
{
  "fio version" : "fio-3.33",
  "jobs" : [ { "jobname" : "ackmark", "error" : 0,
    "write" : { "iops" : 4000.5, "bw_bytes" : 16386048,
      "lat_ns" : { "N" : 100, "bins" : { "50" : 98, "1000" : 2 } } },
    "sync" : { "lat_ns" : { "N" : 100, "bins" : { "100" : 98, "2000" : 2 } } }
  } ]
}
trailing words
"#;

#[test]
fn output_is_read_past_a_warning_line() {
    let result = parse(WITH_SYNC).unwrap();
    assert_eq!(result.iops, 4000.5);
    assert_eq!(result.bytes_per_second, 16_386_048.0);
    assert_eq!(result.write.count(), 100);
    assert_eq!(result.write.quantile_ns(0.5), Some(50));
    assert_eq!(result.sync.quantile_ns(0.99), Some(2000));
}

#[test]
fn a_write_and_its_sync_are_summed_as_independent() {
    let total = parse(WITH_SYNC).unwrap().total;
    // 96.04 % are 150; 1.96 % are 1100; 1.96 % are 2050 and 0.04 % are 3000, to eight bits.
    assert_eq!(total.quantile_ns(0.5), Some(150));
    assert_eq!(total.quantile_ns(0.97), Some(1096));
    assert_eq!(total.quantile_ns(0.99), Some(2048));
    assert_eq!(total.quantile_ns(1.0), Some(2992));
}

#[test]
fn without_a_sync_the_write_is_all() {
    let text = WITH_SYNC.replace(r#""bins" : { "100" : 98, "2000" : 2 }"#, r#""bins" : {}"#);
    let result = parse(&text).unwrap();
    assert_eq!(result.total, result.write);
    assert_eq!(result.sync.quantile_ns(0.5), None);
}

#[test]
fn output_without_a_result_says_what_is_missing() {
    let table = [
        ("fio: command not understood", "no JSON in it"),
        ("{", "EOF while parsing"),
        ("{}", "no job in it"),
        (r#"{"jobs":[{}]}"#, "jobs[0].error is missing"),
        (r#"{"jobs":[{"error":28}]}"#, "No space left on device"),
        (r#"{"jobs":[{"error":0}]}"#, "lat_ns.bins is missing"),
    ];
    for (text, expected) in table {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}

fn job(mode: DurabilityMode) -> FioPattern {
    FioPattern {
        path: PathBuf::from("/data/a:b"),
        mode,
        write_bytes: 4096,
        file_bytes: 1 << 20,
        end: FioEnd::Time(Duration::from_millis(1500)),
        rate_per_second: Some(500),
    }
}

#[test]
fn arguments_carry_engine_sync_unit_and_escape() {
    let line = |mode| arguments(&job(mode)).join(" ");
    let dsync = line(DurabilityMode::DirectDsync);
    assert!(dsync.contains("--ioengine=io_uring --direct=1"), "{dsync}");
    assert!(dsync.contains("--sync=dsync"), "{dsync}");
    assert!(dsync.contains("--runtime=1500ms"), "{dsync}");
    assert!(dsync.contains("--filename=/data/a\\:b "), "{dsync}");
    assert!(dsync.contains("--rate_iops=500"), "{dsync}");

    let fsync = line(DurabilityMode::Fsync);
    assert!(fsync.contains("--ioengine=psync --direct=0"), "{fsync}");
    assert!(fsync.contains("--fdatasync=1"), "{fsync}");
    assert!(!line(DurabilityMode::Direct).contains("sync=1"));
    assert!(!line(DurabilityMode::PageCache).contains("--fdatasync"));

    let line = |end| arguments(&FioPattern { end, ..job(DurabilityMode::PageCache) }).join(" ");
    let bounded = line(FioEnd::TimeOrBytes(Duration::from_secs(1), 4096));
    assert!(bounded.contains("--runtime=1000ms --io_size=4096"), "{bounded}");
    assert!(bounded.contains("--allow_file_create=0"), "{bounded}");
    let grown = line(FioEnd::FileGrown);
    assert!(!grown.contains("--runtime") && !grown.contains("allow_file_create"), "{grown}");
}

#[test]
fn fio_itself_runs_each_buffered_pattern_where_it_is_installed() {
    if version().is_none() {
        println!("skipped: fio is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    zero_filled_file(&path, 1 << 20).unwrap();
    for mode in [DurabilityMode::PageCache, DurabilityMode::Fsync] {
        let end = FioEnd::TimeOrBytes(Duration::from_secs(1), 256 << 10);
        let result =
            run(&FioPattern { path: path.clone(), end, rate_per_second: None, ..job(mode) });
        let result = result.unwrap();
        assert!(result.iops > 0.0);
        assert_eq!(result.sync.count() > 0, mode == DurabilityMode::Fsync, "{mode}");
    }
    let missing =
        FioPattern { path: PathBuf::from("/nonexistent/x"), ..job(DurabilityMode::Fsync) };
    let message = run(&missing).unwrap_err().to_string();
    assert!(message.contains("/nonexistent/x"), "{message}");
}
