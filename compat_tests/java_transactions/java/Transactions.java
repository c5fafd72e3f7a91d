import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions CHECK BOOTSTRAP NAME SOURCE SINK: one check of the transactional producer; an exception is a failure. */
public class Transactions {
    static String bootstrap;
    static String name;
    static String source;
    static String sink;

    public static void main(String[] args) throws Exception {
        bootstrap = args[1];
        name = args[2];
        source = args[3];
        sink = args[4];
        Transactions.class.getDeclaredMethod("check_" + args[0]).invoke(null);
    }

    /** Thirty transactions over two partitions, every third one aborted. */
    static void check_commit_and_abort() {
        List<String> expected = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer(name)) {
            producer.initTransactions();
            for (int number = 0; number < 30; number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 2; partition++) {
                    producer.send(new ProducerRecord<>(sink, partition, null, number + "-" + partition));
                }
                producer.flush();
                if (number % 3 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    expected.addAll(List.of(number + "-0", number + "-1"));
                }
            }
        }
        same(expected, read(sink, "read_committed", 40));
        same(60, read(sink, "read_uncommitted", 60).size());
    }

    static void check_consume_transform_produce_classic() {
        transform("classic");
    }

    static void check_consume_transform_produce_consumer() {
        transform("consumer");
    }

    /** Offsets go with the transaction: after an abort the same records come again, after a commit they do not. */
    static void transform(String protocol) {
        List<String> expected = IntStream.range(0, 20).mapToObj(number -> "r" + number).toList();
        try (KafkaProducer<String, String> plain = producer(null)) {
            expected.forEach(value -> plain.send(new ProducerRecord<>(source, 0, null, value)));
        }
        try (KafkaProducer<String, String> producer = producer(name)) {
            producer.initTransactions();
            for (boolean commits : new boolean[] {false, true}) {
                Map<String, Object> config = Map.of("group.id", name, "group.protocol", protocol, "max.poll.records", 7);
                try (KafkaConsumer<String, String> consumer = consumer("read_committed", config)) {
                    consumer.subscribe(List.of(source));
                    int left = expected.size();
                    while (left > 0) {
                        var records = consumer.poll(Duration.ofSeconds(1));
                        if (records.isEmpty()) {
                            continue;
                        }
                        producer.beginTransaction();
                        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
                        for (ConsumerRecord<String, String> record : records) {
                            producer.send(new ProducerRecord<>(sink, 1, null, record.value()));
                            done.put(new TopicPartition(source, 0), new OffsetAndMetadata(record.offset() + 1));
                        }
                        producer.sendOffsetsToTransaction(done, consumer.groupMetadata());
                        if (commits) {
                            producer.commitTransaction();
                        } else {
                            producer.abortTransaction();
                        }
                        left -= records.count();
                    }
                }
            }
        }
        same(expected, read(sink, "read_committed", expected.size()));
        try (KafkaConsumer<String, String> consumer = consumer("read_committed", Map.of("group.id", name))) {
            TopicPartition partition = new TopicPartition(source, 0);
            same(20L, consumer.committed(java.util.Set.of(partition)).get(partition).offset());
        }
    }

    /** The second producer of an id fences the first, and what the first had open is aborted. */
    static void check_fencing() {
        try (KafkaProducer<String, String> zombie = producer(name); KafkaProducer<String, String> heir = producer(name)) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(sink, 0, null, "zombie"));
            zombie.flush();
            heir.initTransactions();
            heir.beginTransaction();
            heir.send(new ProducerRecord<>(sink, 0, null, "heir"));
            heir.commitTransaction();
            try {
                zombie.commitTransaction();
                throw new AssertionError("the zombie has committed");
            } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
                System.out.println(fenced);
            }
        }
        same(List.of("heir"), read(sink, "read_committed", 1));
        same(List.of("zombie", "heir"), read(sink, "read_uncommitted", 2));
    }

    /** A transaction that takes longer than it may is aborted, and its producer is told. */
    static void check_timeout() throws InterruptedException {
        Map<String, Object> config = Map.of("transaction.timeout.ms", 1000);
        try (KafkaProducer<String, String> producer = producer(name, config)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(sink, 0, null, "late"));
            producer.flush();
            try (KafkaProducer<String, String> plain = producer(null)) {
                plain.send(new ProducerRecord<>(sink, 0, null, "behind"));
            }
            same(List.of("behind"), read(sink, "read_committed", 1));
            try {
                producer.commitTransaction();
                throw new AssertionError("a transaction that is over was committed");
            } catch (KafkaException refused) {
                System.out.println(refused);
            }
        }
    }

    static KafkaProducer<String, String> producer(String transactionalId) {
        return producer(transactionalId, Map.of());
    }

    static KafkaProducer<String, String> producer(String transactionalId, Map<String, Object> extra) {
        Map<String, Object> config = new HashMap<>(extra);
        config.put("bootstrap.servers", bootstrap);
        if (transactionalId != null) {
            config.put("transactional.id", transactionalId);
        }
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String isolation, Map<String, Object> extra) {
        Map<String, Object> config = new HashMap<>(extra);
        config.put("bootstrap.servers", bootstrap);
        config.put("isolation.level", isolation);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** The first values of a topic, and whatever more comes within a second. */
    static List<String> read(String topic, String isolation, int count) {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(isolation, Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1)));
            consumer.seekToBeginning(consumer.assignment());
            long deadline = System.currentTimeMillis() + 30_000;
            while (found.size() < count && System.currentTimeMillis() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> found.add(record.value()));
            }
            consumer.poll(Duration.ofSeconds(1)).forEach(record -> found.add(record.value()));
        }
        return found;
    }

    static void same(Object expected, Object found) {
        if (expected instanceof List<?> one && found instanceof List<?> other) {
            expected = one.stream().map(Object::toString).sorted().toList();
            found = other.stream().map(Object::toString).sorted().toList();
        }
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + "\nfound " + found);
        }
    }
}
