//! `ackmark brokers`

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::cluster::{Broker, Partition};
use super::settings::{SettingsArguments, Whose};
use super::{AdminError, ClusterArguments, table};
use crate::cli::exit::{Exit, Failure};

/// Show the brokers, and show or change the cluster's default settings
#[derive(Debug, Args)]
pub struct BrokersArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    settings: SettingsArguments,
}

#[derive(Debug, Serialize)]
pub(super) struct Described {
    pub(super) brokers: Vec<Counted>,
    /// Values that hold for every topic without its own.
    pub(super) configs: BTreeMap<String, String>,
}

/// A broker and its part in the partitions.
#[derive(Debug, Serialize)]
pub(super) struct Counted {
    #[serde(flatten)]
    pub(super) broker: Broker,
    pub(super) leaders: usize,
    pub(super) in_isr: usize,
    pub(super) replicas: usize,
}

/// `ackmark brokers`
pub fn run(arguments: &BrokersArguments) -> Result<Exit, Failure> {
    let text = answer(arguments)?;
    crate::cli::print(&text)?;
    Ok(Exit::Done)
}

pub(super) fn answer(arguments: &BrokersArguments) -> Result<String, AdminError> {
    let BrokersArguments { cluster, settings } = arguments;
    let mut client = cluster.connect()?;
    if !settings.is_empty() {
        settings.apply(&mut client, Whose::Cluster)?;
    }
    let brokers = client.brokers()?;
    let topics = client.topics(&[])?;
    let partitions: Vec<&Partition> = topics.iter().flat_map(|topic| &topic.partitions).collect();
    let described = Described {
        brokers: brokers.into_iter().map(|broker| counted(broker, &partitions)).collect(),
        configs: client.configs(Whose::Cluster)?,
    };
    Ok(cluster.render(&described, render))
}

fn counted(broker: Broker, partitions: &[&Partition]) -> Counted {
    let count = |holds: &dyn Fn(&Partition) -> bool| {
        partitions.iter().filter(|partition| holds(partition)).count()
    };
    Counted {
        leaders: count(&|partition| partition.leader == Some(broker.id)),
        in_isr: count(&|partition| partition.isr.contains(&broker.id)),
        replicas: count(&|partition| partition.replicas.contains(&broker.id)),
        broker,
    }
}

pub(super) fn render(described: &Described) -> String {
    const HEADER: [&str; 7] = ["broker", "address", "rack", "state", "leads", "in ISR", "replicas"];
    let rows = described.brokers.iter().map(|counted| {
        let broker = &counted.broker;
        vec![
            broker.id.to_string(),
            format!("{}:{}", broker.host, broker.port),
            broker.rack.clone().unwrap_or_else(|| table::NONE.to_owned()),
            if broker.fenced { "fenced" } else { "active" }.to_owned(),
            counted.leaders.to_string(),
            counted.in_isr.to_string(),
            counted.replicas.to_string(),
        ]
    });
    let mut text = table::render(&HEADER, rows);
    for (key, value) in &described.configs {
        text.push_str(&format!("default {key}={value}\n"));
    }
    text
}
