use super::*;

#[test]
fn memory_is_probed_without_the_direct_modes_and_left_clean() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let probe = probe(directory.path(), false).unwrap();

    let modes = |bytes| {
        let cells = probe.cells.iter().filter(move |cell| cell.write_bytes == bytes);
        cells.map(|cell| cell.mode.name()).collect::<Vec<_>>()
    };
    assert_eq!(modes(4096), ["page-cache", "fsync"]);
    assert_eq!(modes(65_536), ["page-cache", "fsync"]);
    assert_eq!(probe.skipped.len(), 3);
    assert_eq!(probe.bandwidth.direct, None);
    for cell in &probe.cells {
        assert!(cell.total.count() > 0);
        assert_eq!(cell.sync.is_some(), cell.mode == DurabilityMode::Fsync);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let text = probe.to_text();
    assert!(text.contains("not available: it is on tmpfs: no device behind it"), "{text}");
    assert!(text.contains("- direct-dsync was left out"), "{text}");
    assert!(!text.contains("fio"), "{text}");
    let json = probe.to_json();
    assert_eq!(json["tight"].as_array().unwrap().len(), 4);
    assert_eq!(json["bandwidth"]["direct_bytes_per_second"], "unknown");
    assert_eq!(json["skipped"][0]["durability"], "direct");
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let error = probe(Path::new("/nonexistent/data"), false).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/data: "), "{error}");
}
