package com.github.redlatch.interop;

import java.util.Arrays;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/**
 * Connects as the arguments say.
 *
 * <pre>
 *   standalone ADDRESS | cluster ADDRESS,ADDRESS...
 *   watchdog=MILLISECONDS    lockWatchdogTimeout
 *   prefix=TEXT              a NameMapper that puts it in front of every name
 *   sharded=MODE             shardedSubscriptionMode of a cluster
 *   database=NUMBER          of a standalone server
 *   protocol=RESP3
 * </pre>
 *
 * Everything else is as Redisson ships it, except that pools start small.
 */
final class Connection {
    private Connection() {}

    static RedissonClient open(String[] args) {
        Config config = new Config();
        String[] addresses =
                Arrays.stream(args[1].split(",")).map(a -> "redis://" + a).toArray(String[]::new);
        BaseConfig<?> servers =
                switch (args[0]) {
                    case "standalone" -> config.useSingleServer()
                            .setAddress(addresses[0])
                            .setConnectionMinimumIdleSize(2);
                    case "cluster" -> config.useClusterServers()
                            .addNodeAddress(addresses)
                            .setMasterConnectionMinimumIdleSize(2)
                            .setSlaveConnectionMinimumIdleSize(2);
                    default -> throw new IllegalArgumentException("topology " + args[0]);
                };
        for (String option : Arrays.copyOfRange(args, 2, args.length)) {
            String[] pair = option.split("=", 2);
            switch (pair[0]) {
                case "watchdog" -> config.setLockWatchdogTimeout(Long.parseLong(pair[1]));
                case "prefix" -> Dialect.setPrefix(config, servers, pair[1]);
                case "database" -> ((SingleServerConfig) servers).setDatabase(Integer.parseInt(pair[1]));
                case "protocol" -> Dialect.setProtocol(config, pair[1]);
                case "sharded" -> Dialect.setSharded(servers, pair[1]);
                default -> throw new IllegalArgumentException("option " + option);
            }
        }
        return Redisson.create(config);
    }
}
