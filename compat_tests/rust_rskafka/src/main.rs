//! `rust_rskafka CHECK BOOTSTRAP TOPIC`: one check with rskafka against a new topic of two partitions; a panic is a failure.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

const DEADLINE: Duration = Duration::from_secs(40);
const START_MS: i64 = 1_700_000_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, bootstrap, topic] = &arguments[..] else { panic!("three arguments") };
    tokio::time::timeout(DEADLINE, check(name, bootstrap, topic)).await.expect("not within 40 s");
}

async fn check(name: &str, bootstrap: &str, topic: &str) {
    let client = &connect(bootstrap).await;
    let partition = client.partition_client(topic, 0, UnknownTopicHandling::Retry).await.unwrap();
    match name {
        "produce_and_consume" => round_trip(&partition, Compression::NoCompression).await,
        "gzip" => round_trip(&partition, Compression::Gzip).await,
        "snappy" => round_trip(&partition, Compression::Snappy).await,
        "lz4" => round_trip(&partition, Compression::Lz4).await,
        "zstd" => round_trip(&partition, Compression::Zstd).await,
        "offsets" => offsets(&partition).await,
        "delete_records" => delete_records(&partition).await,
        "long_poll" => long_poll(bootstrap, &partition).await,
        "errors" => errors(client, &partition).await,
        "admin" => admin(client, topic).await,
        _ => panic!("no check {name}"),
    }
}

/// Keys, values (and their absence), headers and times arrive as they were sent.
async fn round_trip(partition: &PartitionClient, codec: Compression) {
    let sent: Vec<Record> = (0..200).map(record).collect();
    let offsets = partition.produce(sent.clone(), codec).await.unwrap();
    assert_eq!(offsets, (0..200).collect::<Vec<i64>>());
    let found = read(partition, 0, 200).await;
    assert_eq!(found, sent);
}

/// The first, the next and the one at a time.
async fn offsets(partition: &PartitionClient) {
    partition.produce((0..50).map(record).collect(), Compression::NoCompression).await.unwrap();
    assert_eq!(partition.get_offset(OffsetAt::Earliest).await.unwrap(), 0);
    assert_eq!(partition.get_offset(OffsetAt::Latest).await.unwrap(), 50);
    assert_eq!(partition.get_offset(OffsetAt::Timestamp(time(19_500))).await.unwrap(), 20);
    assert_eq!(read(partition, 42, 8).await[0], record(42));
}

/// Reading goes on where the records that are left begin, and what is gone is out of range.
async fn delete_records(partition: &PartitionClient) {
    for number in 0..10 {
        partition.produce(vec![record(number)], Compression::NoCompression).await.unwrap();
    }
    partition.delete_records(4, 10_000).await.unwrap();
    assert_eq!(partition.get_offset(OffsetAt::Earliest).await.unwrap(), 4);
    assert_eq!(read(partition, 4, 6).await[0], record(4));
    refused(partition.fetch_records(3, 1..1_000_000, 100).await, ProtocolError::OffsetOutOfRange);
}

/// A fetch at the end of the log is answered by the record that comes while it waits; over a connection of its own, because one
/// connection's requests are handled one after the other.
async fn long_poll(bootstrap: &str, partition: &PartitionClient) {
    let other = connect(bootstrap).await;
    let other = other.partition_client(partition.topic(), 0, UnknownTopicHandling::Retry).await.unwrap();
    let waiting = partition.fetch_records(0, 1..1_000_000, 20_000);
    let sending = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.produce(vec![record(7)], Compression::NoCompression).await.unwrap();
    };
    let start = std::time::Instant::now();
    let (fetched, ()) = tokio::join!(waiting, sending);
    let (records, high_watermark) = fetched.unwrap();
    assert_eq!((records.len(), high_watermark), (1, 1));
    assert!(start.elapsed() < Duration::from_secs(15));
}

/// Errors are told by their code.
async fn errors(client: &Client, partition: &PartitionClient) {
    refused(partition.fetch_records(99, 1..1_000_000, 100).await, ProtocolError::OffsetOutOfRange);
    let big = Record { value: Some(vec![b'x'; 2_000_000]), ..record(1) };
    refused(partition.produce(vec![big], Compression::NoCompression).await, ProtocolError::MessageTooLarge);
    let controller = client.controller_client().unwrap();
    let existing = controller.create_topic(partition.topic(), 1, 1, 5_000).await;
    refused(existing, ProtocolError::TopicAlreadyExists);
    refused(controller.create_topic("no good name!", 1, 1, 5_000).await, ProtocolError::InvalidTopicException);
}

/// Topics come and go.
async fn admin(client: &Client, topic: &str) {
    let controller = client.controller_client().unwrap();
    let made = format!("{topic}-made");
    controller.create_topic(&made, 3, 1, 10_000).await.unwrap();
    while partitions(client, &made).await != Some(3) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(partitions(client, topic).await, Some(2));
    controller.delete_topic(&made, 10_000).await.unwrap();
    while partitions(client, &made).await.is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// What the checks are made of.

async fn connect(bootstrap: &str) -> Client {
    ClientBuilder::new(vec![bootstrap.to_string()]).build().await.unwrap()
}

fn time(after_start_ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(START_MS + after_start_ms).unwrap()
}

fn record(number: i64) -> Record {
    Record {
        key: (number % 3 != 0).then(|| format!("key {number}").into_bytes()),
        value: (number % 7 != 6).then(|| format!("value {number}").into_bytes()),
        headers: BTreeMap::from([("n".to_string(), number.to_string().into_bytes()), ("empty".to_string(), vec![])]),
        timestamp: time(1000 * number),
    }
}

async fn read(partition: &PartitionClient, from: i64, count: usize) -> Vec<Record> {
    let mut found = Vec::new();
    while found.len() < count {
        let (records, _) = partition.fetch_records(from + found.len() as i64, 1..1_000_000, 1_000).await.unwrap();
        found.extend(records.into_iter().map(|one| one.record));
    }
    assert_eq!(found.len(), count);
    found
}

async fn partitions(client: &Client, topic: &str) -> Option<usize> {
    let topics = client.list_topics().await.unwrap();
    topics.iter().find(|one| one.name == topic).map(|one| one.partitions.len())
}

fn refused<T>(answer: Result<T, Error>, expected: ProtocolError) {
    match answer {
        Err(Error::ServerError { protocol_error, .. }) => assert_eq!(protocol_error, expected),
        Err(other) => panic!("expected {expected:?}, got {other}"),
        Ok(_) => panic!("expected {expected:?}, got no error"),
    }
}
