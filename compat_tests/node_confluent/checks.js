// `node checks.js CHECK BOOTSTRAP TOPIC`: one check with @confluentinc/kafka-javascript against a new topic of two partitions.
const assert = require('assert');
const { Kafka, CompressionTypes, logLevel } = require('@confluentinc/kafka-javascript').KafkaJS;

const [check, bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ kafkaJS: { clientId: 'compat', brokers: [bootstrap], logLevel: logLevel.NOTHING } });

async function produce(messages, settings = {}) {
  const producer = kafka.producer({ kafkaJS: settings });
  await producer.connect();
  const sent = await producer.send({ topic, messages: messages.map((message) => ({ partition: 0, ...message })) });
  await producer.disconnect();
  return sent;
}

function member(groupId, settings = {}) {
  return kafka.consumer({
    'fetch.wait.max.ms': 100,
    ...settings,
    kafkaJS: { groupId, fromBeginning: true, autoCommit: true, ...settings.kafkaJS },
  });
}

// The first records that a group gets; the group commits what it was given and leaves.
async function read(count, groupId = `group-${topic}`, settings = {}) {
  const consumer = member(groupId, settings);
  await consumer.connect();
  await consumer.subscribe({ topic });
  const found = [];
  await new Promise((resolve, reject) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        found.push(message);
        if (found.length === count) resolve();
      },
    }).catch(reject);
  });
  await consumer.disconnect();
  return found;
}

async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 50));
}

async function roundTrip(compression) {
  const sent = [...Array(100).keys()].map((n) => `record ${n}`);
  await produce(sent.map((value) => ({ value })), { compression });
  assert.deepStrictEqual((await read(100)).map((message) => message.value.toString()), sent);
}

async function resume(settings) {
  await produce([{ value: 'a' }, { value: 'b' }]);
  assert.strictEqual((await read(2, undefined, settings)).length, 2);
  await produce([{ value: 'c' }]);
  assert.strictEqual((await read(1, undefined, settings))[0].value.toString(), 'c');
}

// Two members own one partition each; one that leaves gives its partition to the other.
async function share(settings) {
  const members = [member(`group-${topic}`, settings), member(`group-${topic}`, settings)];
  for (const one of members) {
    await one.connect();
    await one.subscribe({ topic });
    await one.run({ eachMessage: async () => {} });
  }
  const owned = () => members.map((one) => one.assignment().length);
  await until(() => owned().join() === '1,1');
  await members[0].disconnect();
  await until(() => members[1].assignment().length === 2);
  await members[1].disconnect();
}

const checks = {
  async produce_and_consume() {
    await roundTrip(CompressionTypes.None);
  },
  async gzip() {
    await roundTrip(CompressionTypes.GZIP);
  },
  async snappy() {
    await roundTrip(CompressionTypes.SNAPPY);
  },
  async lz4() {
    await roundTrip(CompressionTypes.LZ4);
  },
  async headers_keys_and_timestamps() {
    await produce([{ key: 'k', value: 'v', timestamp: '1700000000000', headers: { a: '1', b: ['2', '3'] } }]);
    const [message] = await read(1);
    assert.strictEqual(message.key.toString(), 'k');
    assert.strictEqual(message.timestamp, '1700000000000');
    assert.strictEqual(message.headers.a.toString(), '1');
    assert.deepStrictEqual(message.headers.b.map(String), ['2', '3']);
  },
  async acks() {
    for (const acks of [0, 1, -1]) await produce([{ value: `${acks}` }], { acks });
    assert.deepStrictEqual((await read(3)).map((message) => message.value.toString()), ['0', '1', '-1']);
  },
  async idempotent_producer() {
    const producer = kafka.producer({ kafkaJS: { idempotent: true } });
    await producer.connect();
    for (let n = 0; n < 20; n++) {
      const [sent] = await producer.send({ topic, messages: [{ partition: 0, value: `${n}` }] });
      assert.strictEqual(sent.baseOffset, `${n}`);
    }
    await producer.disconnect();
    assert.strictEqual((await read(20)).length, 20);
  },
  async transactions() {
    const groupId = `offsets-${topic}`;
    const producer = kafka.producer({ kafkaJS: { transactionalId: `tx-${topic}` } });
    const consumer = member(groupId, { kafkaJS: { autoCommit: false } });
    await producer.connect();
    await consumer.connect();
    for (const commit of [false, true]) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages: [{ partition: 0, value: `${commit}` }] });
      await transaction.sendOffsets({ consumer, topics: [{ topic, partitions: [{ partition: 1, offset: '7' }] }] });
      await (commit ? transaction.commit() : transaction.abort());
    }
    await producer.disconnect();
    await consumer.disconnect();
    const [message] = await read(1);
    assert.strictEqual(message.value.toString(), 'true');
    const admin = kafka.admin();
    await admin.connect();
    await until(async () => { // EndTxn is answered before all markers are written
      const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] });
      return partitions.find((one) => one.partition === 1).offset === '7';
    });
    await admin.disconnect();
  },
  async group_commits_and_resumes() {
    await resume({});
  },
  async group_commits_and_resumes_as_a_new_consumer() {
    await resume({ 'group.protocol': 'consumer' });
  },
  async group_of_two() {
    await share({ kafkaJS: { heartbeatInterval: 300 } });
  },
  async group_of_two_as_a_new_consumer() {
    await share({ 'group.protocol': 'consumer' });
  },
  async admin() {
    const admin = kafka.admin();
    await admin.connect();
    const made = `${topic}-made`;
    assert.strictEqual(await admin.createTopics({ topics: [{ topic: made, numPartitions: 2 }] }), true);
    assert.strictEqual(await admin.createTopics({ topics: [{ topic: made, numPartitions: 2 }] }), false);
    await until(async () => (await admin.listTopics()).includes(made));
    const [described] = await admin.fetchTopicMetadata({ topics: [topic] });
    assert.strictEqual(described.partitions.length, 2);
    await produce([{ value: 'a', timestamp: '1700000000000' }, { value: 'b', timestamp: '1700000001000' }]);
    const offsets = await admin.fetchTopicOffsets(topic);
    assert.deepStrictEqual(offsets.map((one) => one.high).sort(), ['0', '2']);
    const later = await admin.fetchTopicOffsetsByTimestamp(topic, 1700000000500);
    assert.strictEqual(later.find((one) => one.partition === 0).offset, '1');
    await read(2);
    const { groups } = await admin.describeGroups([`group-${topic}`]);
    assert.strictEqual(groups[0].groupId, `group-${topic}`);
    assert.ok((await admin.listGroups()).groups.some((one) => one.groupId === `group-${topic}`));
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1' }] });
    assert.strictEqual((await admin.fetchTopicOffsets(topic)).find((one) => one.partition === 0).low, '1');
    await admin.deleteGroups([`group-${topic}`]);
    await admin.deleteTopics({ topics: [made] });
    await until(async () => !(await admin.listTopics()).includes(made));
    await admin.disconnect();
  },
};

setTimeout(() => { console.error('not within 50 s'); process.exit(2); }, 50_000).unref();
checks[check]().then(() => process.exit(0), (failure) => { console.error(failure); process.exit(1); });
