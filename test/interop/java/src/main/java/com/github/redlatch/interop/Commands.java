package com.github.redlatch.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.redisson.api.RBucket;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** What the threads of the agent can do. Times are in milliseconds; a lease of -1 is the watchdog's. */
final class Commands {
    private final RedissonClient redisson;

    Commands(RedissonClient redisson) {
        this.redisson = redisson;
    }

    /** Runs one command on the calling thread, and returns what it returned. */
    Object run(String[] words) throws Exception {
        return switch (words[0]) {
            case "owner" -> redisson.getId() + ":" + Thread.currentThread().getId();
            case "hash" -> hash(words[1]);
            case "turn" -> turn(lock(words[1], words[2]), words[3], words[4]);
            case "count" -> count(lock(words[1], words[2]), words[3]);
            default -> words[0].startsWith("permit.") ? onPermits(words)
                    : words[0].startsWith("latch.") ? onLatch(words)
                    : words[0].startsWith("fenced.") ? Dialect.onFenced(redisson, words)
                    : onLock(words[0], lock(words[1], words[2]), words);
        };
    }

    /** COMMAND KIND NAME [time ...]. */
    private static Object onLock(String command, RLock lock, String[] words) throws Exception {
        return switch (command) {
            case "lock" -> {
                lock.lockInterruptibly(integer(words[3]), MILLISECONDS);
                yield "";
            }
            case "lockasync" -> {
                lock.lockAsync(integer(words[3]), MILLISECONDS).get();
                yield "";
            }
            case "trylock" -> words.length == 3
                    ? lock.tryLock()
                    : lock.tryLock(integer(words[3]), integer(words[4]), MILLISECONDS);
            case "unlock" -> {
                lock.unlock();
                yield "";
            }
            case "force" -> lock.forceUnlock();
            case "locked" -> lock.isLocked();
            case "held" -> lock.isHeldByCurrentThread();
            case "holds" -> lock.getHoldCount();
            case "ttl" -> lock.remainTimeToLive();
            default -> throw new IllegalArgumentException("command " + command);
        };
    }

    private RLock lock(String kind, String name) {
        return switch (kind) {
            case "plain" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "fenced" -> Dialect.fenced(redisson, name);
            case "nonreentrant" -> Dialect.nonReentrant(redisson, name);
            case "multi" -> redisson.getMultiLock( // NAME|NAME
                    Arrays.stream(name.split("\\|")).map(redisson::getLock).toArray(RLock[]::new));
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException("kind " + kind);
        };
    }

    private Object onPermits(String[] words) throws InterruptedException {
        RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore(words[1]);
        return switch (words[0]) {
            case "permit.set" -> semaphore.trySetPermits((int) integer(words[2]));
            case "permit.acquire" -> // null if the wait has ended
                    semaphore.tryAcquire(integer(words[2]), integer(words[3]), MILLISECONDS);
            case "permit.release" -> {
                semaphore.release(words[2]);
                yield "";
            }
            case "permit.update" -> semaphore.updateLeaseTime(words[2], integer(words[3]), MILLISECONDS);
            case "permit.add" -> {
                semaphore.addPermits((int) integer(words[2]));
                yield "";
            }
            case "permit.available" -> semaphore.availablePermits();
            default -> throw new IllegalArgumentException("command " + words[0]);
        };
    }

    private Object onLatch(String[] words) throws InterruptedException {
        RCountDownLatch latch = redisson.getCountDownLatch(words[1]);
        return switch (words[0]) {
            case "latch.set" -> latch.trySetCount(integer(words[2]));
            case "latch.down" -> {
                latch.countDown();
                yield "";
            }
            case "latch.count" -> latch.getCount();
            case "latch.await" -> latch.await(integer(words[2]), MILLISECONDS);
            case "latch.delete" -> latch.delete();
            default -> throw new IllegalArgumentException("command " + words[0]);
        };
    }

    /**
     * Counts under the lock, in two steps that only the lock holds together, until Go has ended it.
     * The counter also names who counted last. The result is how often this thread counted, and for
     * how many milliseconds it waited for the lock at most.
     *
     * <p>A script that may write reads the counter, because it runs on the master. A bucket of a
     * cluster reads from a replica (readMode SLAVE is the default), which may lag behind: the lock
     * is held, and the value is old.
     */
    private Object count(RLock lock, String counter) throws InterruptedException {
        RBucket<String> bucket = redisson.getBucket(counter, StringCodec.INSTANCE);
        RScript script = redisson.getScript(StringCodec.INSTANCE);
        long longest = 0;
        for (int counted = 0; ; counted++) {
            long start = System.nanoTime();
            lock.lock();
            longest = Math.max(longest, System.nanoTime() - start);
            try {
                String[] last = ((String) script.eval(
                                RScript.Mode.READ_WRITE,
                                "return redis.call('get', KEYS[1])",
                                RScript.ReturnType.VALUE,
                                List.of(counter)))
                        .split(" ");
                if (last[1].equals("end")) {
                    return counted + " " + NANOSECONDS.toMillis(longest);
                }
                Thread.sleep(1); // the work
                bucket.set(integer(last[0]) + 1 + " java");
            } finally {
                lock.unlock();
            }
        }
    }

    /** Writes down who has the lock. */
    private Object turn(RLock lock, String list, String label) {
        lock.lock();
        try {
            return redisson.getList(list, StringCodec.INSTANCE).add(label);
        } finally {
            lock.unlock();
        }
    }

    /** What Java sees in a hash: FIELD=VALUE of each, sorted. */
    private Object hash(String name) {
        Map<String, String> fields = redisson.getMap(name, StringCodec.INSTANCE);
        StringBuilder text = new StringBuilder();
        new TreeMap<>(fields).forEach((field, value) -> text.append(field).append('=').append(value).append(' '));
        return text.toString().trim();
    }

    private static long integer(String text) {
        return Long.parseLong(text);
    }
}
