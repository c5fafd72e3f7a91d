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
        21,  # DeleteRecords
        23,  # OffsetForLeaderEpoch
        32,  # DescribeConfigs
        35,  # DescribeLogDirs
        42,  # DeleteGroups
        47,  # OffsetDelete
        60,  # DescribeCluster
        61,  # DescribeProducers
        74,  # ListConfigResources
        75,  # DescribeTopicPartitions
    }
)
