// `program CHECK BOOTSTRAP TOPIC`: one check with sarama, as its users configure it, against a new topic of two partitions.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

var checks = map[string]func(ctx context.Context, bootstrap []string, topic string) error{
	"produce_and_consume":         codec(sarama.CompressionNone),
	"gzip":                        codec(sarama.CompressionGZIP),
	"snappy":                      codec(sarama.CompressionSnappy),
	"lz4":                         codec(sarama.CompressionLZ4),
	"zstd":                        codec(sarama.CompressionZSTD),
	"oldest_protocol_version":     version(sarama.V0_11_0_0),
	"newest_protocol_version":     version(sarama.MaxVersion),
	"headers_keys_and_timestamps": headers,
	"idempotent_producer":         idempotent,
	"transactions":                transactions,
	"group_commits_and_resumes":   group,
	"admin":                       admin,
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := checks[os.Args[1]](ctx, []string{os.Args[2]}, os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	return c
}

func produce(bootstrap []string, topic string, count int, c *sarama.Config) error {
	producer, err := sarama.NewSyncProducer(bootstrap, c)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for n := range count {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprintf("record %d", n))})
	}
	return producer.SendMessages(messages)
}

func read(ctx context.Context, bootstrap []string, topic string, count int, c *sarama.Config) ([]*sarama.ConsumerMessage, error) {
	consumer, err := sarama.NewConsumer(bootstrap, c)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	var found []*sarama.ConsumerMessage
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d records", len(found), count)
		}
	}
	return found, nil
}

func roundTrip(ctx context.Context, bootstrap []string, topic string, c *sarama.Config) error {
	if err := produce(bootstrap, topic, 100, c); err != nil {
		return err
	}
	found, err := read(ctx, bootstrap, topic, 100, c)
	for n, message := range found {
		if string(message.Value) != fmt.Sprintf("record %d", n) {
			return fmt.Errorf("record %d is %q", n, message.Value)
		}
	}
	return err
}

func codec(compression sarama.CompressionCodec) func(ctx context.Context, bootstrap []string, topic string) error {
	return func(ctx context.Context, bootstrap []string, topic string) error {
		c := config()
		c.Producer.Compression = compression
		return roundTrip(ctx, bootstrap, topic, c)
	}
}

func version(version sarama.KafkaVersion) func(ctx context.Context, bootstrap []string, topic string) error {
	return func(ctx context.Context, bootstrap []string, topic string) error {
		c := config()
		c.Version = version
		if err := roundTrip(ctx, bootstrap, topic, c); err != nil {
			return err
		}
		return consumeInGroup(ctx, bootstrap, topic, 100, c)
	}
}

func headers(ctx context.Context, bootstrap []string, topic string) error {
	producer, err := sarama.NewSyncProducer(bootstrap, config())
	if err != nil {
		return err
	}
	defer producer.Close()
	at := time.UnixMilli(1_700_000_000_000)
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("v"),
		Timestamp: at, Headers: []sarama.RecordHeader{{Key: []byte("a"), Value: []byte("1")}}})
	if err != nil {
		return err
	}
	found, err := read(ctx, bootstrap, topic, 1, config())
	if err != nil {
		return err
	}
	if !found[0].Timestamp.Equal(at) || string(found[0].Key) != "k" || len(found[0].Headers) != 1 {
		return fmt.Errorf("%+v", found[0])
	}
	return nil
}

func idempotent(ctx context.Context, bootstrap []string, topic string) error {
	c := config()
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Net.MaxOpenRequests = 1
	return roundTrip(ctx, bootstrap, topic, c)
}

func transactions(ctx context.Context, bootstrap []string, topic string) error {
	c := config()
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Net.MaxOpenRequests = 1
	c.Producer.Transaction.ID = "tx-" + topic
	producer, err := sarama.NewSyncProducer(bootstrap, c)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, commit := range []bool{false, true} {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(commit))}); err != nil {
			return err
		}
		end := producer.AbortTxn
		if commit {
			end = producer.CommitTxn
		}
		if err := end(); err != nil {
			return err
		}
	}
	reader := config()
	reader.Consumer.IsolationLevel = sarama.ReadCommitted
	found, err := read(ctx, bootstrap, topic, 1, reader)
	if err == nil && string(found[0].Value) != "true" {
		err = errors.New("an aborted record was read")
	}
	return err
}

func group(ctx context.Context, bootstrap []string, topic string) error {
	for _, count := range []int{5, 3} {
		if err := produce(bootstrap, topic, count, config()); err != nil {
			return err
		}
		if err := consumeInGroup(ctx, bootstrap, topic, count, config()); err != nil {
			return err
		}
	}
	return nil
}

func consumeInGroup(ctx context.Context, bootstrap []string, topic string, count int, c *sarama.Config) error {
	member, err := sarama.NewConsumerGroup(bootstrap, "group-"+topic, c)
	if err != nil {
		return err
	}
	session, cancel := context.WithCancel(ctx)
	defer cancel()
	handler := &counting{left: count, done: cancel}
	for session.Err() == nil {
		if err := member.Consume(session, []string{topic}, handler); err != nil {
			return err
		}
	}
	if err := member.Close(); err != nil {
		return err
	}
	if handler.left != 0 {
		return fmt.Errorf("%d records are missing, or too many", handler.left)
	}
	return nil
}

type counting struct {
	left int
	done func()
}

func (*counting) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*counting) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (c *counting) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		if c.left--; c.left == 0 {
			session.Commit()
			c.done()
		}
	}
	return nil
}

func admin(_ context.Context, bootstrap []string, topic string) error {
	adm, err := sarama.NewClusterAdmin(bootstrap, config())
	if err != nil {
		return err
	}
	defer adm.Close()
	name := topic + "-made"
	if err := adm.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false); err != nil {
		return err
	}
	if err := adm.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return fmt.Errorf("made twice: %w", err)
	}
	entries, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"cleanup.policy"}})
	if err != nil || len(entries) != 1 || entries[0].Value != "delete" {
		return fmt.Errorf("configs %v: %w", entries, err)
	}
	if err := adm.CreatePartitions(topic, 4, nil, false); err != nil {
		return err
	}
	if _, err := adm.ListConsumerGroups(); err != nil {
		return err
	}
	if _, controller, err := adm.DescribeCluster(); err != nil || controller != 1 {
		return fmt.Errorf("controller %d: %w", controller, err)
	}
	if _, err := adm.DescribeLogDirs([]int32{1}); err != nil {
		return err
	}
	return adm.DeleteTopic(name)
}
