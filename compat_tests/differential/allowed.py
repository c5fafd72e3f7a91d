"""What differs from Apache Kafka on purpose. docs/compatibility.md tells users the same."""

from compat_tests.differential.comparison import Allowed
from kafkapy.handlers import SERVED
from kafkapy.wire.apis import API_BY_KEY

_EXPLAINED = "an explanation where Kafka sends only the code"
_NO_UNKNOWN_ERROR = "Kafka fails with UNKNOWN_SERVER_ERROR where the fault is the client's"
_DUPLICATES = "what a request names twice is answered twice; Kafka's hash tables keep the last"
_RECORDS_CLOSED = "records within a batch are not opened where its header can decide"
_LENIENT = "a value that Kafka does not define is taken for its default instead of UNKNOWN_SERVER_ERROR"
_NO_LOG_START = (
    "a refusal carries no log start offset; clients read it with UNKNOWN_PRODUCER_ID only, which is never sent"
)

_NOT_SERVED = "what is not served is not advertised, and clients fall back or say so"
_KEYS = "|".join(str(key) for key in API_BY_KEY if key not in SERVED)

ALLOWED: list[Allowed] = [
    Allowed(
        "api_versions_every_version",
        r".*Features\[kraft\.version\]\.maxVersion$",
        "version 1 changes the voters of a running quorum",
    ),
    Allowed("api_versions_every_version", rf"named v4: \.apiKeys\[({_KEYS})\]$", _NOT_SERVED),
    Allowed("api_versions_every_version", r".*Features\[(share|streams)\.version\]$", _NOT_SERVED),
    Allowed("produce_*", r".*\.logStartOffset$", _NO_LOG_START),
    Allowed("produce_*", r".*\.errorMessage$", _EXPLAINED),
    Allowed("transactions_*", r"produce .*\.logStartOffset$", _NO_LOG_START),
    Allowed("transactions_*", r"produce .*\.errorMessage$", _EXPLAINED),
    Allowed("alter_configs", r"operation 9 ", _NO_UNKNOWN_ERROR),
    Allowed("delete_topics", r"by name and by id ", _DUPLICATES),
    Allowed("describe_producers", r".*\.errorMessage$", _EXPLAINED),
    Allowed("produce_damaged_batches", r"(length huge|codec [57]) ", _NO_UNKNOWN_ERROR),
    Allowed(
        "produce_damaged_batches", r"(claims gzip|claims zstd|record garbage|record length negative) ", _RECORDS_CLOSED
    ),
    Allowed(
        "produce_damaged_batches",
        r"log append time ",
        "a client's batch must not claim that the broker has timed it; Kafka corrects it silently",
    ),
    Allowed(
        "produce_damaged_batches", r"(what is there|unused attributes|delete horizon) ", "follows from the two above"
    ),
    Allowed("produce_damaged_batches", r"null records ", "Kafka never answers; INVALID_REQUEST is better"),
    Allowed("produce_nothing", r"no partitions ", "a topic without partitions is answered as it was asked"),
    Allowed("produce_the_same_partition_twice", r".*", _DUPLICATES),
    Allowed("fetch_duplicates", r".*", _DUPLICATES),
    Allowed("list_offsets_refused", r"(twice|no partitions) ", _DUPLICATES),
    Allowed("delete_records_edges", r"twice ", _DUPLICATES),
    Allowed("*", r"(isolation -?\d|endpoint type -?\d) ", _LENIENT),
    Allowed(
        "fetch_limits", r"partition -?\d+ all -1 ", "a negative limit is taken for 0 instead of UNKNOWN_SERVER_ERROR"
    ),
    Allowed("fetch_limits", r"partition -1 ", "a negative limit is taken for 0 instead of UNKNOWN_SERVER_ERROR"),
    Allowed("*", r"(epoch|current) -2 ", "a negative leader epoch other than -1 is taken for 'not said'"),
    Allowed(
        "frames_with_hostile_lengths",
        r"(v1 string not utf-8|header tags huge)",
        "malformed bytes close the connection; Kafka guesses what they mean",
    ),
    Allowed(
        "api_versions_from_the_future",
        r".*without body",
        "a future ApiVersions is answered whatever its body looks like",
    ),
    Allowed(
        "metadata_creates",
        r"collides ",
        "a topic that cannot be created says why at once; Kafka says 'unknown' until the client gives up",
    ),
    Allowed("describe_topic_partitions", r"topic '' ", _NO_UNKNOWN_ERROR),
    Allowed("metadata_by_id", r"neither ", _NO_UNKNOWN_ERROR),
    Allowed(
        "wrong_transactions",
        r"Produce v9: transactional batch, no transactional id",
        "without the id, batches of a transaction that is open there are taken; the first one is refused as in Kafka",
    ),
]
