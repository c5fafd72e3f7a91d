// `program CHECK BOOTSTRAP TOPIC`: one check with franz-go against a new topic of two partitions.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var checks = map[string]func(ctx context.Context, bootstrap, topic string) error{
	"produce_and_consume":         codec(kgo.NoCompression()),
	"gzip":                        codec(kgo.GzipCompression()),
	"snappy":                      codec(kgo.SnappyCompression()),
	"lz4":                         codec(kgo.Lz4Compression()),
	"zstd":                        codec(kgo.ZstdCompression()),
	"headers_keys_and_timestamps": headers,
	"acks":                        acks,
	"group_commits_and_resumes":   resumes(nil),
	"group_kip848":                resumes([]kgo.Opt{kgo.WithContext(nextGeneration)}),
	"group_of_two":                groupOfTwo,
	"transactions":                transactions,
	"exactly_once_session":        exactlyOnce,
	"regex_subscription":          regex,
	"admin":                       admin,
	"errors":                      unknownTopic,
}

//lint:ignore SA1029 this is the key that the client asks for
var nextGeneration = context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := checks[os.Args[1]](ctx, os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(bootstrap string, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		panic(err)
	}
	return cl
}

func produce(ctx context.Context, bootstrap, topic string, count int, opts ...kgo.Opt) error {
	cl := client(bootstrap, opts...)
	defer cl.Close()
	var records []*kgo.Record
	for n := range count {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "record %d", n)})
	}
	return cl.ProduceSync(ctx, records...).FirstErr()
}

// from reads partition 0 from its beginning.
func from(topic string) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
}

func take(ctx context.Context, cl *kgo.Client, count int) ([]*kgo.Record, error) {
	var found []*kgo.Record
	for len(found) < count {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records: %w", len(found), count, err)
		}
		found = append(found, fetches.Records()...)
	}
	return found, nil
}

func values(ctx context.Context, cl *kgo.Client, expected ...string) error {
	records, err := take(ctx, cl, len(expected))
	if err != nil {
		return err
	}
	for n, record := range records {
		if n >= len(expected) || string(record.Value) != expected[n] {
			return fmt.Errorf("record %d is %q, not one of %q", n, record.Value, expected)
		}
	}
	return nil
}

func codec(compression kgo.CompressionCodec) func(ctx context.Context, bootstrap, topic string) error {
	return func(ctx context.Context, bootstrap, topic string) error {
		if err := produce(ctx, bootstrap, topic, 100, kgo.ProducerBatchCompression(compression)); err != nil {
			return err
		}
		var expected []string
		for n := range 100 {
			expected = append(expected, fmt.Sprintf("record %d", n))
		}
		cl := client(bootstrap, from(topic))
		defer cl.Close()
		return values(ctx, cl, expected...)
	}
}

func headers(ctx context.Context, bootstrap, topic string) error {
	cl := client(bootstrap, from(topic))
	defer cl.Close()
	sent := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(1_700_000_000_000),
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}}}
	if err := cl.ProduceSync(ctx, sent).FirstErr(); err != nil {
		return err
	}
	records, err := take(ctx, cl, 1)
	if err != nil {
		return err
	}
	got := records[0]
	if string(got.Key) != "k" || got.Timestamp.UnixMilli() != 1_700_000_000_000 || len(got.Headers) != 2 || got.Headers[1].Value != nil {
		return fmt.Errorf("%+v", got)
	}
	return nil
}

func acks(ctx context.Context, bootstrap, topic string) error {
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		if err := produce(ctx, bootstrap, topic, 1, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite()); err != nil {
			return err
		}
	}
	cl := client(bootstrap, from(topic))
	defer cl.Close()
	_, err := take(ctx, cl, 3)
	return err
}

func resumes(opts []kgo.Opt) func(ctx context.Context, bootstrap, topic string) error {
	return func(ctx context.Context, bootstrap, topic string) error {
		for _, count := range []int{5, 3} {
			if err := produce(ctx, bootstrap, topic, count); err != nil {
				return err
			}
			settings := []kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumerGroup("group-" + topic), kgo.DisableAutoCommit(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
			cl := client(bootstrap, append(settings, opts...)...)
			records, err := take(ctx, cl, count)
			if err == nil && len(records) != count {
				err = fmt.Errorf("%d records instead of %d", len(records), count)
			}
			if err == nil {
				err = cl.CommitUncommittedOffsets(ctx)
			}
			cl.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func groupOfTwo(ctx context.Context, bootstrap, topic string) error {
	var owned [2]atomic.Int32
	var members [2]*kgo.Client
	count := func(partitions map[string][]int32) int32 { return int32(len(partitions[topic])) }
	for n := range members {
		gained := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { owned[n].Add(count(partitions)) }
		lost := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			owned[n].Add(-count(partitions))
		}
		cl := client(bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("group-"+topic), kgo.HeartbeatInterval(300*time.Millisecond),
			kgo.OnPartitionsAssigned(gained), kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost))
		members[n] = cl
		go func() {
			for ctx.Err() == nil && !cl.PollFetches(ctx).IsClientClosed() {
			}
		}()
	}
	defer members[1].Close()
	if err := wait(ctx, func() bool { return owned[0].Load() == 1 && owned[1].Load() == 1 }); err != nil {
		return err
	}
	members[0].Close()
	return wait(ctx, func() bool { return owned[1].Load() == 2 })
}

func wait(ctx context.Context, condition func() bool) error {
	for !condition() {
		select {
		case <-ctx.Done():
			return errors.New("it did not come")
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func transactions(ctx context.Context, bootstrap, topic string) error {
	cl := client(bootstrap, kgo.TransactionalID("tx-"+topic))
	defer cl.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		record := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "commit %v", bool(end))}
		if err := cl.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		if err := cl.EndTransaction(ctx, end); err != nil {
			return err
		}
	}
	reader := client(bootstrap, from(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	return values(ctx, reader, "commit true")
}

func exactlyOnce(ctx context.Context, bootstrap, topic string) error {
	if err := produce(ctx, bootstrap, topic, 5); err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("tx-"+topic), kgo.ConsumerGroup("group-"+topic),
		kgo.ConsumeTopics(topic), kgo.RequireStableFetchOffsets(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer session.Close()
	for seen := 0; seen < 5; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			session.Produce(ctx, &kgo.Record{Topic: topic + "-out", Value: record.Value}, nil)
			seen++
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil || !committed {
			return fmt.Errorf("committed %v: %w", committed, err)
		}
	}
	// EndTxn is answered before the group's partition has its marker, so the offset may take a moment to be seen.
	committed := func() bool {
		offsets, err := kadm.NewClient(session.Client()).FetchOffsets(ctx, "group-"+topic)
		found, ok := offsets.Lookup(topic, 0)
		return err == nil && ok && found.At == 5
	}
	if err := wait(ctx, committed); err != nil {
		return fmt.Errorf("the offset was not committed: %w", err)
	}
	reader := client(bootstrap, kgo.ConsumeTopics(topic+"-out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	_, err = take(ctx, reader, 5)
	return err
}

func regex(ctx context.Context, bootstrap, topic string) error {
	if err := produce(ctx, bootstrap, topic, 3); err != nil {
		return err
	}
	cl := client(bootstrap, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+topic+"$"))
	defer cl.Close()
	_, err := take(ctx, cl, 3)
	return err
}

func admin(ctx context.Context, bootstrap, topic string) error {
	adm := kadm.NewClient(client(bootstrap))
	defer adm.Close()
	name := topic + "-made"
	policy := "compact"
	if _, err := adm.CreateTopic(ctx, 3, -1, map[string]*string{"cleanup.policy": &policy}, name); err != nil {
		return err
	}
	if _, err := adm.CreateTopic(ctx, 3, -1, nil, name); !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("made twice: %w", err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, name)
	if err != nil || len(configs) != 1 || configs[0].Err != nil {
		return fmt.Errorf("configs %v: %w", configs, err)
	}
	if _, err := adm.CreatePartitions(ctx, 2, name); err != nil {
		return err
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil || ends.Error() != nil {
		return fmt.Errorf("end offsets %v: %w", ends.Error(), err)
	}
	metadata, err := adm.Metadata(ctx)
	if err != nil || len(metadata.Brokers) != 1 || metadata.Controller != 1 {
		return fmt.Errorf("metadata %v: %w", metadata, err)
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil || len(dirs) != 1 {
		return fmt.Errorf("log dirs %v: %w", dirs, err)
	}
	_, err = adm.DeleteTopic(ctx, name)
	return err
}

func unknownTopic(ctx context.Context, bootstrap, topic string) error {
	cl := client(bootstrap, kgo.UnknownTopicRetries(1))
	defer cl.Close()
	err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic + "-nowhere", Value: []byte("x")}).FirstErr()
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("an unknown topic gave %w", err)
	}
	return nil
}
