"""One module per API key, named like its message module; each has `handle(context, request)`.

SERVED is the one list of what the broker answers. ApiVersions reports exactly it, so what is advertised and what is implemented can't
differ; a test compares it with the modules in this folder. To serve another API: write its module, add its key here.
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
