import java.io.File;
import java.lang.reflect.Proxy;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Has Apache Kafka's own cleaner compact partition folders, once each, at a given time.
 *
 * Arguments, six per folder: folder, segment.bytes, index.interval.bytes, delete.retention.ms, first dirty offset, time in ms.
 * Prints per folder: first offset not cleaned, cleanable ratio, first uncleanable offset.
 */
public class KafkaCleaner {
    private static long nowMs;

    public static void main(String[] arguments) throws Exception {
        Time time = (Time) Proxy.newProxyInstance(KafkaCleaner.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, values) -> switch (method.getName()) {
                case "milliseconds", "hiResClockMs" -> nowMs;
                case "nanoseconds" -> nowMs * 1_000_000L;
                case "sleep" -> null;
                default -> method.invoke(Time.SYSTEM, values);
            });
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (int at = 0; at < arguments.length; at += 6) {
            Properties settings = new Properties();
            settings.put("cleanup.policy", "compact");
            settings.put("internal.segment.bytes", arguments[at + 1]);
            settings.put("index.interval.bytes", arguments[at + 2]);
            settings.put("delete.retention.ms", arguments[at + 3]);
            settings.put("segment.ms", String.valueOf(Long.MAX_VALUE / 2));
            settings.put("file.delete.delay.ms", "0");
            long firstDirtyOffset = Long.parseLong(arguments[at + 4]);
            nowMs = Long.parseLong(arguments[at + 5]);
            UnifiedLog log = UnifiedLog.create(new File(arguments[at]), new LogConfig(settings), 0, 0, scheduler,
                new BrokerTopicStats(), time, 900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000,
                new LogDirFailureChannel(10), true, Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            long end = Math.max(firstDirtyOffset, Math.min(log.lastStableOffset(), log.activeSegment().baseOffset()));
            LogToClean work = new LogToClean(log, firstDirtyOffset, end, false);
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), 65_536, 1 << 20, 0.9,
                new Throttler(Double.MAX_VALUE, 300, "io", "bytes", Time.SYSTEM), time, partition -> { });
            long cleaned = cleaner.doClean(work, nowMs).getKey();
            System.out.println("cleaned " + cleaned + " " + work.cleanableRatio() + " " + work.firstUncleanableOffset());
            log.close();
        }
        System.exit(0);
    }
}
