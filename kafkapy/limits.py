"""Every bound that is not a Kafka configuration key, each with its reason."""

# A connection starts with a buffer that holds any small request; 10,000 idle connections must fit in 250 MB.
CONNECTION_BUFFER_BYTES_MIN = 4 * 1024

# A buffer that grew for a large Produce shrinks back to this once it is empty, so that one burst does not pin memory for ever.
CONNECTION_BUFFER_BYTES_KEPT = 256 * 1024

# Requests of one connection whose answers are still waiting (acks=all, long polls). Java allows 5 in flight, librdkafka up to a million;
# beyond this the connection is simply not read.
CONNECTION_WAITS_MAX = 64

# Elements that one decoded message may hold in all its arrays together: a small frame must not become gigabytes of objects.
# A Metadata request for every topic of a very large cluster has about 200,000.
DECODE_ELEMENTS_MAX = 1_000_000

# Records of a Fetch up to this size travel with the answer's other bytes, in one send. A slice of a file takes three system calls and, because
# its end is not the answer's end, two packets, of which the second wakes the receiver once more.
INLINE_RECORDS_BYTES_MAX = 16 * 1024

# How deep arrays and structures may nest in any message: the protocol itself never goes beyond 5.
DECODE_DEPTH_MAX = 16

# Decompressed size of one record batch that the broker opens itself (recompression, compaction, checks): a bomb stops here.
DECOMPRESSED_BATCH_BYTES_MAX = 256 * 1024 * 1024
