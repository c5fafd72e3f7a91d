"""One module per API key, named like its message module; each has `handle(context, request)`.

SERVED is the one list of what the broker's listeners answer, CONTROLLER_SERVED that of the controller's. ApiVersions reports exactly them, so what is
advertised and what is implemented can't differ; a test compares them with the modules in this folder. To serve another API: write its module, add its
key here. CONTROLLER_HANDLERS names the modules of those APIs that a controller's listener answers in another way.
"""

SERVED: frozenset[int] = frozenset(
    {
        0,  # Produce
        1,  # Fetch
        2,  # ListOffsets
        3,  # Metadata
        8,  # OffsetCommit
        9,  # OffsetFetch
        10,  # FindCoordinator
        11,  # JoinGroup
        12,  # Heartbeat
        13,  # LeaveGroup
        14,  # SyncGroup
        15,  # DescribeGroups
        16,  # ListGroups
        18,  # ApiVersions
        19,  # CreateTopics
        20,  # DeleteTopics
        21,  # DeleteRecords
        22,  # InitProducerId
        23,  # OffsetForLeaderEpoch
        24,  # AddPartitionsToTxn
        25,  # AddOffsetsToTxn
        26,  # EndTxn
        27,  # WriteTxnMarkers
        28,  # TxnOffsetCommit
        29,  # DescribeAcls
        30,  # CreateAcls
        31,  # DeleteAcls
        32,  # DescribeConfigs
        33,  # AlterConfigs
        35,  # DescribeLogDirs
        37,  # CreatePartitions
        42,  # DeleteGroups
        43,  # ElectLeaders
        44,  # IncrementalAlterConfigs
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        47,  # OffsetDelete
        48,  # DescribeClientQuotas
        49,  # AlterClientQuotas
        50,  # DescribeUserScramCredentials
        55,  # DescribeQuorum
        57,  # UpdateFeatures
        60,  # DescribeCluster
        61,  # DescribeProducers
        64,  # UnregisterBroker
        65,  # DescribeTransactions
        66,  # ListTransactions
        68,  # ConsumerGroupHeartbeat
        69,  # ConsumerGroupDescribe
        74,  # ListConfigResources
        75,  # DescribeTopicPartitions
    }
)

CONTROLLER_SERVED: frozenset[int] = frozenset(
    {
        1,  # Fetch, of the metadata log
        18,  # ApiVersions
        19,  # CreateTopics
        20,  # DeleteTopics
        29,  # DescribeAcls
        30,  # CreateAcls
        31,  # DeleteAcls
        32,  # DescribeConfigs
        33,  # AlterConfigs
        37,  # CreatePartitions
        43,  # ElectLeaders
        44,  # IncrementalAlterConfigs
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        49,  # AlterClientQuotas
        50,  # DescribeUserScramCredentials
        55,  # DescribeQuorum
        56,  # AlterPartition
        57,  # UpdateFeatures
        58,  # Envelope
        59,  # FetchSnapshot
        60,  # DescribeCluster
        62,  # BrokerRegistration
        63,  # BrokerHeartbeat
        64,  # UnregisterBroker
        67,  # AllocateProducerIds
        70,  # ControllerRegistration
        73,  # AssignReplicasToDirs
    }
)

CONTROLLER_HANDLERS: dict[int, str] = {
    1: "metadata_fetch",
    18: "controller_api_versions",
    60: "describe_controllers",
}

# What a broker passes on to the active controller; see forwarding.py.
FORWARDED: frozenset[int] = frozenset(
    {
        19,  # CreateTopics
        20,  # DeleteTopics
        33,  # AlterConfigs
        37,  # CreatePartitions
        43,  # ElectLeaders
        44,  # IncrementalAlterConfigs
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        49,  # AlterClientQuotas
        55,  # DescribeQuorum
        57,  # UpdateFeatures
        64,  # UnregisterBroker
    }
)
