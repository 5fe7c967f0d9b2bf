//! Kafka error codes, the subset this product answers or understands.

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)*) => {
        /// A Kafka protocol error code. The numbers are Kafka's (spec/kafka-wire.md).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
            /// A code this product has no name for.
            Other(i16),
        }

        impl ErrorCode {
            /// The wire value.
            pub fn code(self) -> i16 {
                match self {
                    $(ErrorCode::$variant => $code,)*
                    ErrorCode::Other(code) => code,
                }
            }

            /// From the wire value; unnamed codes become [`ErrorCode::Other`].
            pub fn from_code(code: i16) -> ErrorCode {
                match code {
                    $($code => ErrorCode::$variant,)*
                    other => ErrorCode::Other(other),
                }
            }

            /// Kafka's name for the code.
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $name,)*
                    ErrorCode::Other(_) => "OTHER",
                }
            }
        }
    };
}

error_codes! {
    /// No error.
    None = 0, "NONE";
    /// The server failed in a way no other code names.
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR";
    /// The offset lies outside the log.
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE";
    /// The batch's checksum or size is wrong.
    CorruptMessage = 2, "CORRUPT_MESSAGE";
    /// No such topic or partition.
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION";
    /// The partition has no leader now.
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE";
    /// This broker does not lead the partition.
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER";
    /// The request's own timeout passed first.
    RequestTimedOut = 7, "REQUEST_TIMED_OUT";
    /// The batch is larger than `max.message.bytes`.
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE";
    /// The connection to the server broke.
    NetworkException = 13, "NETWORK_EXCEPTION";
    /// The topic name is not allowed.
    InvalidTopic = 17, "INVALID_TOPIC_EXCEPTION";
    /// The committed ISR is under min ISR; nothing was appended.
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS";
    /// Appended, but the ISR fell under min ISR before the answer.
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND";
    /// `acks` is none of -1, 0, 1.
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS";
    /// Not authorised for the cluster.
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED";
    /// The API version is not supported.
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION";
    /// The topic exists already.
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS";
    /// The number of partitions is not allowed.
    InvalidPartitions = 37, "INVALID_PARTITIONS";
    /// The replication factor is not allowed.
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR";
    /// The replica assignment is not allowed.
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT";
    /// A configuration value is not allowed.
    InvalidConfig = 40, "INVALID_CONFIG";
    /// This controller is not the active one, or knows less than the sender.
    NotController = 41, "NOT_CONTROLLER";
    /// The request makes no sense.
    InvalidRequest = 42, "INVALID_REQUEST";
    /// A rule of whoever runs the cluster forbids it: brokers could not hold the replicas.
    PolicyViolation = 44, "POLICY_VIOLATION";
    /// The operation was not attempted.
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED";
    /// The sender's leader epoch is older than the current one.
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH";
    /// The sender's leader epoch is newer than the one known here.
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH";
    /// The compression type is not allowed for this version.
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE";
    /// The sender's broker epoch is not the registered one.
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH";
    /// The latest offset is not known yet after an election.
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE";
    /// The preferred leader cannot lead now.
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE";
    /// No eligible replica is available to lead.
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE";
    /// No election is needed.
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED";
    /// A record or batch breaks a rule.
    InvalidRecord = 87, "INVALID_RECORD";
    /// The partition epoch in the request is stale.
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION";
    /// No topic has this id.
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID";
    /// Another live broker has this id.
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION";
    /// The broker id is not registered.
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED";
    /// The topic id does not match the topic.
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID";
    /// The cluster id differs.
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID";
    /// A proposed ISR member may not join now.
    IneligibleReplica = 107, "INELIGIBLE_REPLICA";
    /// The change was applied and moved leadership away from the sender.
    NewLeaderElected = 108, "NEW_LEADER_ELECTED";
    /// The registration is not valid.
    InvalidRegistration = 119, "INVALID_REGISTRATION";
    /// The log directory has failed.
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR";
    /// The fetch session id is unknown.
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND";
    /// The fetch session epoch is not the expected one.
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ErrorCode::Other(code) => write!(f, "error {code}"),
            known => f.write_str(known.name()),
        }
    }
}
