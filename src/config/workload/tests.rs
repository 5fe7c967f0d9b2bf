use super::*;

fn read(text: &str) -> Result<Workload, String> {
    Workload::from_text(Path::new("w.toml"), text).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    read(text).expect_err("a bad workload")
}

#[test]
fn a_name_alone_is_a_workload() {
    let workload = read("name = \"n\"").expect("defaults are a good workload");
    assert_eq!(workload.cluster.brokers, 3);
    assert_eq!(workload.matrix.engines, [EngineKind::Uring]);
    assert_eq!(workload.matrix.durabilities, [DurabilityMode::PageCache]);
    assert_eq!(
        workload.matrix.pacings,
        [Pacing::Open { rate_per_s: 1_000, arrival: Arrival::Uniform }]
    );
    assert_eq!(
        workload.cluster.commit_route.under(DurabilityMode::Fsync),
        CommitRoute::BlockingHelper
    );
}

#[test]
fn a_short_run_shortens_the_default_warm_up_only() {
    let workload = read("name = \"n\"\n[load]\nduration = \"100ms\"").expect("a good workload");
    assert_eq!(workload.load.warmup, Duration::from_millis(100));
    let error = refusal("name = \"n\"\n[load]\nduration = \"100ms\"\nwarmup = \"1s\"");
    assert_eq!(
        error,
        "w.toml:4:10: load.warmup = \"1s\": the warm-up is longer than the run; must be at most \
         load.duration, which is 100ms"
    );
}

#[test]
fn an_unknown_key_lists_the_known_ones() {
    let error = refusal("name = \"n\"\n[flush]\nmessage = 5");
    assert_eq!(error, "w.toml:3:1: flush.message: no such key; allowed here: messages, interval");
}

#[test]
fn a_default_that_clashes_says_it_is_one() {
    let error = refusal("name = \"n\"\n[cluster]\nbrokers = 1");
    assert_eq!(
        error,
        "w.toml:3:11: cluster.brokers = 1: cluster.replication_factor, by default 3, must be at \
         most cluster.brokers, which is 1"
    );
}

#[test]
fn a_byte_that_is_not_utf_8_has_a_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("w.toml");
    std::fs::write(&file, b"# \xc3\xb6\nname = \"\xff\"\n").expect("a writable folder");
    let error = Workload::from_file(&file).expect_err("not UTF-8").to_string();
    let expected = format!("{}:2:9: a byte that is not UTF-8", file.display());
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn quick_keeps_every_cell() {
    let text = "name = \"n\"\n[matrix]\nacks = [1, \"all\"]\n[load]\nrepeats = 5";
    let workload = read(text).expect("a good workload");
    let quick = workload.clone().quick();
    assert_eq!(quick.cells(), workload.cells());
    assert_eq!(quick.load.repeats, 1);
    assert!(quick.load.warmup + quick.load.duration < Duration::from_secs(1));
}

#[test]
fn quick_leaves_four_shares_of_a_sweep() {
    let shares = |text: &str| -> Vec<u32> {
        let text = format!("name = \"n\"\n[matrix]\nrate = {text}");
        let quick = read(&text).expect("a good workload").quick();
        assert!(quick.load.saturation_probe < Duration::from_millis(500));
        let percent = |pacing: &Pacing| match pacing {
            Pacing::Share { percent, .. } => *percent,
            other => panic!("{other:?}"),
        };
        quick.matrix.pacings.iter().map(percent).collect()
    };
    assert_eq!(
        shares(r#"["10%", "25%", "50%", "70%", "80%", "90%", "100%", "110%"]"#),
        [10, 50, 80, 110]
    );
    assert_eq!(shares(r#"["10%", "50%", "110%"]"#), [10, 50, 110]);
}

#[test]
fn quick_sees_each_repeated_fault_three_times_and_a_single_one_to_its_end() {
    let fault = |rest: &str| {
        let kind = "[[fault]]\nkind = \"kill\"\ntarget = \"leader\"\nat = \"1s\"\n";
        format!("{kind}{rest}\n")
    };
    let repeated = |every: u32| fault(&format!("every = \"{every}s\"\nfor = \"500ms\""));
    let quick = |faults: String| {
        let text = format!("name = \"n\"\n[load]\nduration = \"60s\"\n{faults}");
        read(&text).expect("a good workload").quick().load.duration.as_secs()
    };
    assert_eq!(quick(repeated(2)), 7);
    assert_eq!(quick(repeated(2) + &repeated(3)), 10, "the longest");
    assert_eq!(quick(repeated(50)), 60, "no longer than in full");
    assert_eq!(quick(repeated(2) + &fault("")), 60, "a single one may need all of it");
}

#[test]
fn the_controller_path_is_chosen_by_the_workload() {
    let plain = read("name = \"n\"").expect("a good workload").cluster;
    assert_eq!((plain.controllers, plain.election), (1, defaults::ELECTION));
    assert_eq!(plain.alter_partition, AlterPartitionPolicy::default());
    let text = "name = \"n\"\n[cluster]\ncontrollers = 3\nalter_partition_single_flight = false\n\
                metadata_append_linger = \"25ms\"\n[election]\ncompat = \"kafka-4.2\"";
    let other = read(text).expect("a good workload").cluster;
    assert_eq!((other.controllers, other.election.elr_level), (3, 1));
    assert_eq!(other.metadata_append_linger, Duration::from_millis(25));
    let policy = AlterPartitionPolicy { single_flight: false, batched: true };
    assert_eq!(other.alter_partition, policy);
    let error = refusal("name = \"n\"\n[cluster]\ncontrollers = 2");
    assert_eq!(error, "w.toml:3:15: cluster.controllers = 2: must be 1 or 3");
    let error = refusal("name = \"n\"\n[election]\nelr_level = 3");
    assert_eq!(error, "w.toml:3:13: election.elr_level = 3: must be 0 to 2");
}
