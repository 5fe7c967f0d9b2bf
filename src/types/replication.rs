//! The variants of the replication rules that an experiment compares: the words that configuration
//! and machines share. Source: spec/kip966.md 1.2 to 1.8, 5.3.

/// When the leader's high watermark may advance (`hwm.gate`, spec/kip966.md 1.4), and how far the
/// leader itself may shrink the ISR.
///
/// The gate modes of spec/kip966.md 5.3, as cells of a workload:
///
/// | mode | `hwm.gate` | `isr.wait` |
/// |---|---|---|
/// | off, before Kafka 3.7 | `legacy` | `controller` |
/// | committed ISR, the KIP | `kip966` | `controller` |
/// | maximal ISR, the unsafe control | `maximal-isr` | `controller` |
/// | "soft" strict min ISR, rejected by the KIP | `soft` | `controller` |
///
/// `isr.wait = none` goes further than `maximal-isr`: there a pending proposal counts as committed
/// for everything, pending removals and the admission of `acks=all` included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HwmGate {
    /// Only while the controller-committed ISR has at least effective min ISR members (KIP-966).
    Kip966,
    /// No min ISR condition, as before the KIP.
    Legacy,
    /// As `Kip966`, but a pending addition to the ISR opens the gate before the controller has
    /// committed it. Unsafe; isolates what the wait for that commit costs.
    MaximalIsr,
    /// As `Kip966`, and the leader never proposes an ISR below effective min ISR: a lagging member
    /// that is needed for it stays. The controller still takes fenced members out.
    Soft,
}

/// Whether a pending ISR addition counts as committed before the controller says so (`isr.wait`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IsrWait {
    /// The committed ISR changes when the controller's reply or metadata record arrives.
    Controller,
    /// The leader counts a proposed ISR as if it were committed. Unsafe; for measuring the wait.
    None,
}

/// Which followers may rejoin the ISR (`isr.expand`, spec/kip966.md 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IsrExpand {
    /// log end offset >= high watermark and >= start offset of the leader epoch, as Kafka ships.
    Kafka,
    /// As `Kafka`, and caught up while the partition is under min ISR (KAFKA-19996).
    CaughtUp,
}

/// What becomes of `acks=all` produces that wait when the committed ISR falls under min ISR
/// (spec/kip966.md 1.8, departure 7): the high watermark cannot pass them until the ISR has grown again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProduceUnderMinIsr {
    /// They fail at once with NOT_ENOUGH_REPLICAS_AFTER_APPEND (KIP-966).
    Fail,
    /// They go on waiting until the producer's timeout, as Kafka ships.
    Wait,
}

/// When a follower sends its next fetch (`replica.fetch.pipeline`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchPipeline {
    /// Once what the last one brought is durable: the fetch offset is the durable end.
    Classic,
    /// At once: the log grows while the last batches sync. The durable end travels in a field of
    /// its own, and each move of it is told to the leader, so that an acknowledgement promises no
    /// less than under `Classic`.
    Pipelined,
}

/// From when on an append is served to followers (`replica.serve.followers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServeFollowers {
    /// As soon as it is in the leader's log: its own sync and the followers' run side by side.
    BeforeSync,
    /// Once the leader's own durability mode holds for it.
    AfterSync,
}

macro_rules! named {
    ($name:ident: $($variant:ident = $text:literal),+ $(,)?) => {
        impl $name {
            /// All of them, by name.
            pub const ALL: [(&str, $name); [$($text),+].len()] = [$(($text, $name::$variant)),+];

            /// As written in configuration.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}

named!(HwmGate: Kip966 = "kip966", Legacy = "legacy", MaximalIsr = "maximal-isr", Soft = "soft");
named!(IsrWait: Controller = "controller", None = "none");
named!(IsrExpand: Kafka = "kafka", CaughtUp = "caught-up");
named!(FetchPipeline: Classic = "classic", Pipelined = "pipelined");
named!(ServeFollowers: BeforeSync = "before", AfterSync = "after");
