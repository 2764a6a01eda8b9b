// A worker that takes locks with node-redlock. It does what worker.go does.
//
//     node -e … worker ORDER

const Redis = require("ioredis");
const Redlock = require("redlock");

const order = JSON.parse(process.argv[2]);
let ended = false;
process.on("SIGTERM", () => { ended = true; });

function connect(address) {
  const [host, port] = address.split(":");
  return new Redis({ host, port: Number(port) });
}

const locks = connect(order.locks);
const referee = connect(order.referee);
const redlock = new Redlock([locks], {
  retryCount: Math.ceil(1000 / order.retry), retryDelay: order.retry, retryJitter: 0,
});

async function take(key) {
  try {
    return await redlock.lock(key, order.ttl);
  } catch (fault) {
    if (fault instanceof Redlock.LockError) {
      return null; // busy for all of its tries
    }
    throw fault;
  }
}

async function visit(worker) {
  const key = order.keys[Math.floor(Math.random() * order.keys.length)];
  const lock = await take(key);
  if (lock === null) {
    return;
  }
  const [, [, inside], [, counter]] = await referee.pipeline()
    .sadd("inside:" + key, worker).smembers("inside:" + key).get("counter:" + key).exec();
  if (inside.length !== 1) {
    await referee.rpush("faults", `${key}: inside are ${inside.join(" and ")}`);
  }
  await referee.multi()
    .set("counter:" + key, Number(counter || 0) + 1).srem("inside:" + key, worker)
    .hincrby("grants", order.kind, 1).hincrby("visitors", order.process, 1).exec();
  await lock.unlock();
}

async function work(worker) {
  while (!ended) {
    try {
      await visit(worker);
    } catch (fault) {
      await referee.rpush("faults", `${worker}: ${fault}`);
      return;
    }
  }
}

Promise.all(Array.from({ length: order.workers }, (_, n) => work(`${order.process}/${n}`)))
  .finally(() => { locks.disconnect(); referee.disconnect(); });
