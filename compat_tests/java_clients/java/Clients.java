import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients BOOTSTRAP: runs the checks that its input asks for, one `CHECK TOPIC GROUP` per line, and answers each with `ok`, or with
 * a stack trace and `failed`. They use the methods that clients from 2.8 to 4.3 share.
 */
public class Clients {
    static String bootstrap;
    static String topic;
    static String group;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            topic = words[1];
            group = words[2];
            try {
                Clients.class.getDeclaredMethod("check_" + words[0]).invoke(null);
                System.out.println("ok");
            } catch (InvocationTargetException failure) {
                failure.getCause().printStackTrace(System.out);
                System.out.println("failed");
            }
        }
    }

    static void check_plain() throws Exception {
        roundTrip(Map.of("enable.idempotence", "false", "acks", "1"));
    }

    static void check_idempotent() throws Exception {
        roundTrip(Map.of("enable.idempotence", "true", "acks", "all", "linger.ms", "5"));
    }

    static void check_gzip() throws Exception {
        roundTrip(Map.of("compression.type", "gzip", "linger.ms", "20"));
    }

    static void check_snappy() throws Exception {
        roundTrip(Map.of("compression.type", "snappy", "linger.ms", "20"));
    }

    static void check_lz4() throws Exception {
        roundTrip(Map.of("compression.type", "lz4", "linger.ms", "20"));
    }

    static void check_zstd() throws Exception {
        roundTrip(Map.of("compression.type", "zstd", "linger.ms", "20"));
    }

    /** Two hundred records with keys, headers and times arrive as they were sent, in the order of their partition. */
    static void roundTrip(Map<String, Object> settings) throws Exception {
        List<RecordMetadata> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer(settings)) {
            for (int number = 0; number < 200; number++) {
                ProducerRecord<String, String> record =
                        new ProducerRecord<>(topic, number % 2, 1_700_000_000_000L + number, "k" + number, "v" + number);
                record.headers().add("n", Integer.toString(number).getBytes(StandardCharsets.UTF_8));
                sent.add(producer.send(record).get(30, TimeUnit.SECONDS));
            }
        }
        List<ConsumerRecord<String, String>> found = read(200, Map.of());
        for (int partition = 0; partition < 2; partition++) {
            int which = partition;
            List<ConsumerRecord<String, String>> here =
                    found.stream().filter(record -> record.partition() == which).collect(Collectors.toList());
            for (int position = 0; position < here.size(); position++) {
                ConsumerRecord<String, String> record = here.get(position);
                int number = 2 * position + which;
                same("k" + number + "=v" + number, record.key() + "=" + record.value());
                same(1_700_000_000_000L + number, record.timestamp());
                same(Integer.toString(number), new String(record.headers().lastHeader("n").value(), StandardCharsets.UTF_8));
                same(sent.get(number).offset(), record.offset());
            }
        }
    }

    /** Two members share two partitions; what they commit, sync and async, is where the next one goes on. */
    static void check_group() throws Exception {
        produce(100);
        Set<TopicPartition> shared = new HashSet<>();
        try (KafkaConsumer<String, String> one = consumer(Map.of()); KafkaConsumer<String, String> two = consumer(Map.of())) {
            one.subscribe(List.of(topic));
            two.subscribe(List.of(topic));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
            long read = 0;
            while ((read != 100 || shared.size() != 2) && System.nanoTime() < deadline) {
                read = 0;
                shared.clear();
                for (KafkaConsumer<String, String> consumer : List.of(one, two)) {
                    consumer.poll(Duration.ofMillis(200));
                    if (consumer.assignment().size() == 1) {
                        TopicPartition own = consumer.assignment().iterator().next();
                        shared.add(own);
                        read += consumer.position(own);
                    }
                }
            }
            same(2, shared.size());
            same(100L, read);
            one.commitAsync();
            one.commitSync();
            two.commitSync();
        }
        produce(10);
        try (KafkaConsumer<String, String> next = consumer(Map.of())) {
            Set<TopicPartition> both = Set.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            Map<TopicPartition, OffsetAndMetadata> committed = next.committed(both);
            same(100L, committed.values().stream().mapToLong(OffsetAndMetadata::offset).sum());
            next.subscribe(List.of(topic));
            same(10, poll(next, 10).size());
        }
    }

    /** Committed transactions are read, aborted ones are not, offsets go with them. */
    static void check_transactions() throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", group + "-txn"));
                KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            producer.initTransactions();
            for (int number = 0; number < 10; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, "t" + number));
                producer.send(new ProducerRecord<>(topic, 1, null, "t" + number));
                if (number == 0) {
                    producer.sendOffsetsToTransaction(
                            Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(7)), consumer.groupMetadata());
                }
                producer.flush(); // An abort would drop what has not been sent yet.
                if (number % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            TopicPartition zero = new TopicPartition(topic, 0);
            until(() -> {
                OffsetAndMetadata committed = consumer.committed(Set.of(zero)).get(zero);
                return committed != null && committed.offset() == 7;
            });
        }
        same(10, read(10, Map.of("isolation.level", "read_committed")).size());
        same(20, read(20, Map.of("isolation.level", "read_uncommitted")).size());
    }

    static void check_admin() throws Exception {
        String name = topic + "-admin";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(name, 3, (short) 1).configs(Map.of("retention.ms", "3600000")))).all().get();
            fails(TopicExistsException.class, () -> admin.createTopics(List.of(new NewTopic(name, 3, (short) 1))).all().get());
            admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all().get();
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
            AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET);
            Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
            changes.put(resource, List.of(change));
            admin.incrementalAlterConfigs(changes).all().get();
            until(() -> "7200000".equals(
                    admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value()));
            same(true, admin.listTopics().names().get().contains(name));
            same(true, admin.describeCluster().nodes().get().size() > 0);
            try (KafkaProducer<String, String> producer = producer(Map.of())) {
                for (int number = 0; number < 10; number++) {
                    producer.send(new ProducerRecord<>(name, 4, null, "v" + number)).get();
                }
            }
            TopicPartition last = new TopicPartition(name, 4);
            same(10L, admin.listOffsets(Map.of(last, OffsetSpec.latest())).all().get().get(last).offset());
            admin.deleteRecords(Map.of(last, RecordsToDelete.beforeOffset(4))).all().get();
            same(4L, admin.listOffsets(Map.of(last, OffsetSpec.earliest())).all().get().get(last).offset());
            admin.deleteTopics(List.of(name)).all().get();
            until(() -> !admin.listTopics().names().get().contains(name));
        }
    }

    /** Positions by time, by end, and at a place of one's own. */
    static void check_seek() throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int number = 0; number < 50; number++) {
                producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + 1000L * number, null, "v" + number)).get();
            }
        }
        TopicPartition zero = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            consumer.assign(List.of(zero));
            same(20L, consumer.offsetsForTimes(Map.of(zero, 1_700_000_019_500L)).get(zero).offset());
            same(0L, consumer.beginningOffsets(List.of(zero)).get(zero));
            same(50L, consumer.endOffsets(List.of(zero)).get(zero));
            consumer.seek(zero, 42);
            same("v42", poll(consumer, 8).get(0).value());
        }
    }

    /** A record that the topic does not take fails alone. */
    static void check_too_large() throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of("max.request.size", "5000000"))) {
            fails(RecordTooLargeException.class,
                    () -> producer.send(new ProducerRecord<>(topic, 0, null, "x".repeat(2_000_000))).get());
            producer.send(new ProducerRecord<>(topic, 0, null, "small")).get();
        }
        same("small", read(1, Map.of()).get(0).value());
    }

    // What the checks are made of.

    interface Call {
        void run() throws Exception;
    }

    static void fails(Class<? extends Exception> expected, Call call) throws Exception {
        try {
            call.run();
        } catch (ExecutionException error) {
            same(expected.getName(), error.getCause().getClass().getName());
            return;
        }
        throw new AssertionError("no " + expected.getSimpleName());
    }

    /** Apache Kafka acknowledges some changes before its own broker shows them. */
    static void until(Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within 30 s");
            }
            Thread.sleep(50);
        }
    }

    static void same(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        all.putAll(settings);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group,
                "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        all.putAll(settings);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    static void produce(int count) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int number : IntStream.range(0, count).toArray()) {
                producer.send(new ProducerRecord<>(topic, number % 2, null, "r" + number)).get();
            }
        }
    }

    static List<ConsumerRecord<String, String>> read(int count, Map<String, Object> settings) {
        try (KafkaConsumer<String, String> consumer = consumer(settings)) {
            List<TopicPartition> both = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            consumer.assign(both);
            consumer.seekToBeginning(both);
            return poll(consumer, count);
        }
    }

    static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (found.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
        }
        consumer.poll(Duration.ofMillis(100)).forEach(found::add);
        same(count, found.size());
        return found;
    }
}
