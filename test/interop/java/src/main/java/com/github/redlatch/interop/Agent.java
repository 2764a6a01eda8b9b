package com.github.redlatch.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

import org.redisson.api.RedissonClient;

/**
 * Redisson at the end of a pipe.
 *
 * <pre>
 *   in    ID THREAD COMMAND ARGUMENT ...    with tabs between them
 *   out   ID ok RESULT
 *         ID error CLASS: MESSAGE, caused by ...
 * </pre>
 *
 * To Redisson, the owner of a lock is the thread. Each command therefore names the thread that runs
 * it; a thread exists from its first command on and runs one at a time, in order. Commands of
 * different threads run side by side, so answers come in any order. Two commands do not wait for
 * what their thread runs: "interrupt" interrupts it, and "parked" returns whether it waits for a
 * message, and for nothing else.
 *
 * <p>The first line out is "0 ok" and the id of the client, once it is connected. The end of the
 * input ends the process at once, as a crash does: nothing is released.
 */
public final class Agent {
    private final Commands commands;
    private final Map<String, Worker> workers = new HashMap<>();

    private Agent(RedissonClient redisson) {
        this.commands = new Commands(redisson);
    }

    public static void main(String[] args) throws Exception {
        RedissonClient redisson = Connection.open(args);
        Agent agent = new Agent(redisson);
        answer("0", "ok " + redisson.getId());
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            agent.accept(line.split("\t"));
        }
        Runtime.getRuntime().halt(0);
    }

    private void accept(String[] words) {
        String id = words[0];
        String thread = words[1];
        String[] command = Arrays.copyOfRange(words, 2, words.length);
        Worker worker = workers.computeIfAbsent(thread, Worker::new);
        switch (command[0]) {
            case "interrupt" -> {
                worker.interrupt();
                answer(id, "ok ");
            }
            case "parked" -> answer(id, "ok " + worker.parked());
            default -> worker.submit(() -> run(id, command));
        }
    }

    private void run(String id, String[] command) {
        try {
            answer(id, "ok " + commands.run(command));
        } catch (Throwable e) {
            StringBuilder causes = new StringBuilder("error ").append(e);
            for (Throwable cause = e.getCause(); cause != null; cause = cause.getCause()) {
                causes.append(", caused by ").append(cause);
            }
            answer(id, causes.toString().replace('\n', ' '));
        }
    }

    private static synchronized void answer(String id, String text) {
        System.out.println(id + " " + text);
        System.out.flush();
    }
}
