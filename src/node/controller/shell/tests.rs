use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::node::controller::on_event_loop;
use crate::node::controller::tests::process::config;
use crate::protocol::controller::Registration;
use crate::protocol::metadata::{DirectoryId, Endpoint, IncarnationId, supported_features};
use crate::types::BrokerId;

fn register(machine: &mut Machine) -> oneshot::Receiver<Response> {
    let (answer, answered) = oneshot::channel();
    let registration = Registration {
        broker: BrokerId(1),
        cluster_id: "cluster".to_owned(),
        incarnation: IncarnationId([1; 16]),
        endpoints: vec![Endpoint {
            name: "PLAINTEXT".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 9,
            security_protocol: 0,
        }],
        features: supported_features(),
        rack: None,
        log_dirs: vec![DirectoryId([2; 16])],
        previous_epoch: None,
        damaged: vec![],
    };
    machine.ask(Ask::new(Request::RegisterBroker(registration), answer));
    answered
}

/// A deposed controller may see its successor's records where its own were to be.
#[test]
fn records_of_another_leader_answer_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    on_event_loop(async {
        let (quorum, _) = Quorum::start(&config).await?;
        let (queue, _asked) = mpsc::channel(8);
        let active = Rc::new(watch::Sender::new(None));
        let mut shell = Shell::new(&config, quorum, active, queue);
        shell.wait_until_active().await?;
        let machine = shell.machine.as_mut().unwrap();
        let mut answered = register(machine);
        let end_offset = machine.proposed_end.plus(machine.pending.len() as i64);
        assert!(!machine.pending.is_empty(), "a registration is a record");

        let epoch = LeaderEpoch(machine.epoch.0 + 1);
        machine.committed(Applied { epoch, end_offset });
        assert_eq!(answered.try_recv().unwrap_err(), TryRecvError::Empty);
        machine.committed(Applied { epoch: machine.epoch, end_offset });
        assert!(matches!(answered.try_recv(), Ok(Response::RegisterBroker(Ok(_)))));
        Ok(())
    })
    .unwrap();
}
