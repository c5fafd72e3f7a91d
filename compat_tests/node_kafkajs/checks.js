// `node checks.js CHECK BOOTSTRAP TOPIC`: one check with kafkajs against a new topic of two partitions.
const assert = require('assert');
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs');

const [check, bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ clientId: 'compat', brokers: [bootstrap], logLevel: logLevel.NOTHING });

async function produce(messages, compression) {
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, compression, messages: messages.map((message) => ({ partition: 0, ...message })) });
  await producer.disconnect();
}

// The first records that a group gets; the group commits what it was given and leaves.
async function read(count, groupId = `group-${topic}`, options = {}) {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, ...options });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
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

async function roundTrip(compression) {
  const sent = [...Array(100).keys()].map((n) => `record ${n}`);
  await produce(sent.map((value) => ({ value })), compression);
  assert.deepStrictEqual((await read(100)).map((message) => message.value.toString()), sent);
}

const checks = {
  async produce_and_consume() {
    await roundTrip(CompressionTypes.None);
  },
  async gzip() {
    await roundTrip(CompressionTypes.GZIP);
  },
  async snappy() {
    CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
    await roundTrip(CompressionTypes.Snappy);
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
    const producer = kafka.producer();
    await producer.connect();
    for (const acks of [0, 1, -1]) await producer.send({ topic, acks, messages: [{ partition: 0, value: `${acks}` }] });
    await producer.disconnect();
    assert.deepStrictEqual((await read(3)).map((message) => message.value.toString()), ['0', '1', '-1']);
  },
  async idempotent_producer() {
    const producer = kafka.producer({ idempotent: true });
    await producer.connect();
    for (let n = 0; n < 20; n++) await producer.send({ topic, messages: [{ partition: 0, value: `${n}` }] });
    await producer.disconnect();
    assert.strictEqual((await read(20)).length, 20);
  },
  async transactions() {
    const producer = kafka.producer({ transactionalId: `tx-${topic}`, maxInFlightRequests: 1, idempotent: true });
    await producer.connect();
    for (const commit of [false, true]) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages: [{ partition: 0, value: `${commit}` }] });
      await transaction.sendOffsets({ consumerGroupId: `offsets-${topic}`, topics: [{ topic, partitions: [{ partition: 1, offset: '7' }] }] });
      await (commit ? transaction.commit() : transaction.abort());
    }
    await producer.disconnect();
    const [message] = await read(1);
    assert.strictEqual(message.value.toString(), 'true');
    const admin = kafka.admin();
    await admin.connect();
    let offset; // EndTxn is answered before all markers are written
    while (offset !== '7') {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: `offsets-${topic}`, topics: [topic] });
      offset = partitions.find((one) => one.partition === 1).offset;
    }
    await admin.disconnect();
  },
  async group_commits_and_resumes() {
    await produce([{ value: 'a' }, { value: 'b' }]);
    assert.strictEqual((await read(2)).length, 2);
    await produce([{ value: 'c' }]);
    assert.strictEqual((await read(1))[0].value.toString(), 'c');
  },
  async group_of_two() {
    const settings = { groupId: `group-${topic}`, heartbeatInterval: 300 };
    const members = [kafka.consumer(settings), kafka.consumer(settings)];
    const owned = [0, 0];
    for (const [n, member] of members.entries()) {
      member.on('consumer.group_join', ({ payload }) => { owned[n] = (payload.memberAssignment[topic] || []).length; });
      await member.connect();
      await member.subscribe({ topic });
      await member.run({ eachMessage: async () => {} });
    }
    const until = async (condition) => { while (!condition()) await new Promise((resolve) => setTimeout(resolve, 50)); };
    await until(() => owned[0] === 1 && owned[1] === 1);
    await members[0].disconnect();
    await until(() => owned[1] === 2);
    await members[1].disconnect();
  },
  async admin() {
    const admin = kafka.admin();
    await admin.connect();
    const made = `${topic}-made`;
    assert.strictEqual(await admin.createTopics({ topics: [{ topic: made, numPartitions: 2 }] }), true);
    assert.strictEqual(await admin.createTopics({ topics: [{ topic: made, numPartitions: 2 }] }), false);
    await admin.createPartitions({ topicPartitions: [{ topic: made, count: 4 }] });
    const configs = await admin.describeConfigs({ resources: [{ type: 2, name: topic, configNames: ['cleanup.policy'] }] });
    assert.strictEqual(configs.resources[0].configEntries[0].configValue, 'delete');
    const cluster = await admin.describeCluster();
    assert.strictEqual(cluster.controller, 1);
    await produce([{ value: 'a' }, { value: 'b' }]);
    const offsets = await admin.fetchTopicOffsets(topic);
    assert.deepStrictEqual(offsets.map((one) => one.high).sort(), ['0', '2']);
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1' }] });
    await admin.listGroups();
    await admin.deleteTopics({ topics: [made] });
    await admin.disconnect();
  },
};

setTimeout(() => { console.error('not within 30 s'); process.exit(2); }, 30_000).unref();
checks[check]().then(() => process.exit(0), (failure) => { console.error(failure); process.exit(1); });
