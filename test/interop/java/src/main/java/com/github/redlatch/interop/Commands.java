package com.github.redlatch.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;

import org.redisson.api.RBucket;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;

/** What the threads of the agent can do. Times are in milliseconds; a lease of -1 is the watchdog's. */
final class Commands {
    private final RedissonClient redisson;
    private final Map<String, RedissonClient> others = new ConcurrentHashMap<>();

    Commands(RedissonClient redisson) {
        this.redisson = redisson;
    }

    /** The client of another server, from its first use on until "close". */
    private RedissonClient at(String address) {
        return others.computeIfAbsent(
                address,
                a -> {
                    String watchdog = "watchdog=" + redisson.getConfig().getLockWatchdogTimeout();
                    try {
                        return Connection.open(new String[] {"standalone", a, watchdog, "retries=1"});
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                });
    }

    private Object close(String addresses) {
        for (String address : addresses.split(",")) {
            RedissonClient other = others.remove(address);
            if (other != null) {
                other.shutdown(0, 1, SECONDS);
            }
        }
        return "";
    }

    /** Runs one command on the calling thread, and returns what it returned. */
    Object run(String[] words) throws Exception {
        return switch (words[0]) {
            case "owner" -> redisson.getId() + ":" + Thread.currentThread().getId();
            case "hash" -> hash(words[1]);
            case "turn" -> turn(lock(words[1], words[2]), words[3], words[4]);
            case "close" -> close(words[1]);
            case "mapped" -> mapped(words[1], words[2], words[3]);
            case "alternate" -> alternate(lock(words[1], words[2]), words[3], integer(words[4]), integer(words[5]));
            case "count" -> count(lock(words[1], words[2]), words[3]);
            default -> words[0].startsWith("permit.") ? onPermits(words)
                    : words[0].startsWith("latch.") ? onLatch(words)
                    : words[0].startsWith("fenced.") ? onFenced(words)
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

    /** A kind may name servers besides that of the agent: KIND@ADDRESS, and red@ADDRESS,ADDRESS.... */
    private RLock lock(String kind, String name) throws Exception {
        String[] place = kind.split("@");
        if (place.length == 1) {
            return lock(redisson, kind, name);
        }
        RLock[] locks = Arrays.stream(place[1].split(",")).map(a -> at(a).getLock(name)).toArray(RLock[]::new);
        return place[0].equals("red") ? redisson.getRedLock(locks) : lock(at(place[1]), place[0], name);
    }

    private static RLock lock(RedissonClient redisson, String kind, String name) throws Exception {
        return switch (kind) {
            case "plain" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "fenced" -> fenced(redisson, name);
            case "nonreentrant" -> (RLock) Dialect.call(RedissonClient.class, redisson, "getNonReentrantLock", name);
            case "multi" -> redisson.getMultiLock( // NAME|NAME
                    Arrays.stream(name.split("\\|")).map(redisson::getLock).toArray(RLock[]::new));
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException("kind " + kind);
        };
    }

    private static RLock fenced(RedissonClient redisson, String name) throws Exception {
        return (RLock) Dialect.call(RedissonClient.class, redisson, "getFencedLock", name);
    }

    private Object onFenced(String[] words) throws Exception {
        RLock lock = fenced(redisson, words[1]);
        String method =
                switch (words[0]) {
                    case "fenced.lock" -> "lockAndGetToken";
                    case "fenced.token" -> "getToken";
                    default -> throw new IllegalArgumentException("command " + words[0]);
                };
        return Dialect.call(lock.getClass(), lock, method);
    }

    private Object onPermits(String[] words) throws Exception {
        RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore(words[1]);
        return switch (words[0]) {
            case "permit.set" -> semaphore.trySetPermits((int) integer(words[2]));
            case "permit.acquire" -> // null if the wait has ended
                    semaphore.tryAcquire(integer(words[2]), integer(words[3]), MILLISECONDS);
            case "permit.acquire.n" -> // of another Redisson, ids with commas between them; null if the wait has ended
                    joined(Dialect.call(RPermitExpirableSemaphore.class, semaphore, "tryAcquire",
                            (int) integer(words[2]), integer(words[3]), integer(words[4]), MILLISECONDS));
            case "permit.release.n" -> Dialect.call(
                    RPermitExpirableSemaphore.class, semaphore, "release", List.of(words[2].split(",")));
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

    private static Object joined(Object ids) {
        return ids == null || ((List<?>) ids).isEmpty() ? "null" : String.join(",", (Iterable<String>) ids);
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
     */
    private Object count(RLock lock, String counter) throws InterruptedException {
        RBucket<String> bucket = redisson.getBucket(counter, StringCodec.INSTANCE);
        long longest = 0;
        for (int counted = 0; ; counted++) {
            long start = System.nanoTime();
            lock.lock();
            longest = Math.max(longest, System.nanoTime() - start);
            try {
                String[] last = bucket.get().split(" ");
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

    /**
     * Takes every second turn, Go the others. A turn begins with counting it, and ends when the
     * other side is about to take the lock, at another moment of that each time. So each turn is
     * handed over between the languages, in each state of waiting.
     */
    private Object alternate(RLock lock, String name, long turns, long lease) throws Exception {
        RBucket<String> turn = redisson.getBucket(name, StringCodec.INSTANCE);
        RBucket<String> next = redisson.getBucket(name + "/next", StringCodec.INSTANCE);
        for (long n = 1; n < turns; n += 2) {
            await(turn, n);
            next.set(Long.toString(n));
            lock.lockInterruptibly(lease, MILLISECONDS);
            if (!turn.get().equals(Long.toString(n))) {
                throw new IllegalStateException("in turn " + n + " somebody else has counted to " + turn.get());
            }
            turn.set(Long.toString(n + 1));
            if (n + 1 < turns) {
                await(next, n + 1);
                LockSupport.parkNanos(n % 16 * 100_000);
            }
            lock.unlock();
        }
        return "";
    }

    private void await(RBucket<String> bucket, long n) throws InterruptedException {
        while (!bucket.get().equals(Long.toString(n))) {
            Thread.sleep(0, 100_000);
        }
    }

    /** The name of the lock that a map has for a key: it depends on the codec of the map. */
    private Object mapped(String codec, String map, String key) throws Exception {
        Codec encoding =
                codec.isEmpty()
                        ? redisson.getConfig().getCodec()
                        : (Codec) Class.forName(codec).getDeclaredConstructor().newInstance();
        return redisson.getMap(map, encoding).getLock(key).getName();
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
