// `program CHECK BOOTSTRAP TOPIC`: one check with segmentio's kafka-go against a new topic of two partitions.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

var checks = map[string]func(ctx context.Context, bootstrap, topic string) error{
	"produce_and_consume":         codec(0),
	"gzip":                        codec(kafka.Gzip),
	"snappy":                      codec(kafka.Snappy),
	"lz4":                         codec(kafka.Lz4),
	"zstd":                        codec(kafka.Zstd),
	"headers_keys_and_timestamps": headers,
	"acks":                        acks,
	"group_commits_and_resumes":   group,
	"connection":                  connection,
	"admin":                       admin,
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := checks[os.Args[1]](ctx, os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// first sends everything to partition 0.
func first(kafka.Message, ...int) int { return 0 }

func writer(bootstrap, topic string) *kafka.Writer {
	return &kafka.Writer{Addr: kafka.TCP(bootstrap), Topic: topic, BatchTimeout: 10 * time.Millisecond, Balancer: kafka.BalancerFunc(first),
		RequiredAcks: kafka.RequireAll}
}

func produce(ctx context.Context, w *kafka.Writer, count int) error {
	var messages []kafka.Message
	for n := range count {
		messages = append(messages, kafka.Message{Value: fmt.Appendf(nil, "record %d", n)})
	}
	if err := w.WriteMessages(ctx, messages...); err != nil {
		return err
	}
	return w.Close()
}

func read(ctx context.Context, bootstrap, topic string, count int) ([]kafka.Message, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, Partition: 0, MaxWait: 100 * time.Millisecond})
	defer reader.Close()
	var found []kafka.Message
	for range count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return nil, fmt.Errorf("%d of %d records: %w", len(found), count, err)
		}
		found = append(found, message)
	}
	return found, nil
}

func codec(compression kafka.Compression) func(ctx context.Context, bootstrap, topic string) error {
	return func(ctx context.Context, bootstrap, topic string) error {
		w := writer(bootstrap, topic)
		w.Compression = compression
		if err := produce(ctx, w, 100); err != nil {
			return err
		}
		found, err := read(ctx, bootstrap, topic, 100)
		for n, message := range found {
			if string(message.Value) != fmt.Sprintf("record %d", n) {
				return fmt.Errorf("record %d is %q", n, message.Value)
			}
		}
		return err
	}
}

func headers(ctx context.Context, bootstrap, topic string) error {
	w := writer(bootstrap, topic)
	at := time.UnixMilli(1_700_000_000_000)
	sent := kafka.Message{Key: []byte("k"), Value: []byte("v"), Time: at, Headers: []kafka.Header{{Key: "a", Value: []byte("1")}}}
	if err := w.WriteMessages(ctx, sent); err != nil {
		return err
	}
	found, err := read(ctx, bootstrap, topic, 1)
	if err != nil {
		return err
	}
	if string(found[0].Key) != "k" || !found[0].Time.Equal(at) || len(found[0].Headers) != 1 {
		return fmt.Errorf("%+v", found[0])
	}
	return w.Close()
}

func acks(ctx context.Context, bootstrap, topic string) error {
	for _, acks := range []kafka.RequiredAcks{kafka.RequireNone, kafka.RequireOne, kafka.RequireAll} {
		w := writer(bootstrap, topic)
		w.RequiredAcks = acks
		if err := produce(ctx, w, 1); err != nil {
			return err
		}
	}
	_, err := read(ctx, bootstrap, topic, 3)
	return err
}

func group(ctx context.Context, bootstrap, topic string) error {
	for _, count := range []int{5, 3} {
		if err := produce(ctx, writer(bootstrap, topic), count); err != nil {
			return err
		}
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, GroupID: "group-" + topic, Topic: topic,
			StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond})
		for n := range count {
			message, err := reader.FetchMessage(ctx)
			if err != nil {
				return err
			}
			if string(message.Value) != fmt.Sprintf("record %d", n) {
				return fmt.Errorf("record %d is %q", n, message.Value)
			}
			if err := reader.CommitMessages(ctx, message); err != nil {
				return err
			}
		}
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return nil
}

func connection(ctx context.Context, bootstrap, topic string) error {
	conn, err := kafka.DialLeader(ctx, "tcp", bootstrap, topic, 0)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.WriteMessages(kafka.Message{Value: []byte("a")}, kafka.Message{Value: []byte("b")}); err != nil {
		return err
	}
	low, high, err := conn.ReadOffsets()
	if err != nil || low != 0 || high != 2 {
		return fmt.Errorf("offsets %d to %d: %w", low, high, err)
	}
	if _, err := conn.Seek(1, kafka.SeekAbsolute); err != nil {
		return err
	}
	message, err := conn.ReadMessage(1000)
	if err != nil || string(message.Value) != "b" {
		return fmt.Errorf("%q: %w", message.Value, err)
	}
	return nil
}

func admin(ctx context.Context, bootstrap, topic string) error {
	conn, err := kafka.DialContext(ctx, "tcp", bootstrap)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.CreateTopics(kafka.TopicConfig{Topic: topic + "-made", NumPartitions: 2, ReplicationFactor: 1}); err != nil {
		return err
	}
	client := &kafka.Client{Addr: kafka.TCP(bootstrap)}
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil || len(metadata.Brokers) != 1 || len(metadata.Topics[0].Partitions) != 2 {
		return fmt.Errorf("metadata %+v: %w", metadata, err)
	}
	configs, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}}})
	if err != nil || configs.Resources[0].Error != nil {
		return fmt.Errorf("configs %+v: %w", configs, err)
	}
	return conn.DeleteTopics(topic + "-made")
}
