package com.github.redlatch.interop;

import java.util.Arrays;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;

import org.redisson.misc.ReclosableLatch;

/** One thread, and what it runs. */
final class Worker {
    private final ExecutorService executor;
    private volatile Thread thread;
    private Future<?> last;

    Worker(String name) {
        executor =
                Executors.newSingleThreadExecutor(
                        work -> {
                            thread = new Thread(work, name);
                            return thread;
                        });
    }

    void submit(Runnable work) {
        last = executor.submit(work);
    }

    /** Interrupts the last command, if it still runs. */
    void interrupt() {
        last.cancel(true);
    }

    /**
     * Whether the thread has tried, found the lock taken, and sleeps until a message arrives or a
     * timer fires: in the semaphore of a lock or of permits, or in that of a count-down latch. While
     * it waits for an answer of Redis, it is in neither.
     */
    boolean parked() {
        Thread t = thread;
        return t != null
                && (t.getState() == Thread.State.WAITING || t.getState() == Thread.State.TIMED_WAITING)
                && Arrays.stream(t.getStackTrace())
                        .map(StackTraceElement::getClassName)
                        .anyMatch(
                                name ->
                                        name.equals(Semaphore.class.getName())
                                                || name.equals(ReclosableLatch.class.getName()));
    }
}
