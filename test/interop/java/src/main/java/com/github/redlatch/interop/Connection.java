package com.github.redlatch.interop;

import java.util.Arrays;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SingleServerConfig;

/**
 * Connects as the arguments say.
 *
 * <pre>
 *   standalone ADDRESS | cluster ADDRESS,ADDRESS... | sentinel MASTER,ADDRESS,ADDRESS...
 *   watchdog=MILLISECONDS    lockWatchdogTimeout
 *   prefix=TEXT              a NameMapper that puts it in front of every name
 *   sharded=MODE             shardedSubscriptionMode of a cluster
 *   database=NUMBER          of a standalone server
 *   protocol=RESP3
 *   codec=CLASS              of values
 *   retries=NUMBER           of a call to a server that doesn't answer
 * </pre>
 *
 * Everything else is as Redisson ships it, except that pools start small, and that the master is
 * read: a replica lags, so that what is read under the lock would be older than the lock.
 */
final class Connection {
    private Connection() {}

    static RedissonClient open(String[] args) throws Exception {
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
                            .setReadMode(ReadMode.MASTER)
                            .setMasterConnectionMinimumIdleSize(2);
                    case "sentinel" -> config.useSentinelServers()
                            .setMasterName(args[1].split(",")[0])
                            .addSentinelAddress(Arrays.copyOfRange(addresses, 1, addresses.length))
                            .setReadMode(ReadMode.MASTER)
                            .setMasterConnectionMinimumIdleSize(2);
                    default -> throw new IllegalArgumentException("topology " + args[0]);
                };
        servers.setClientName("java");
        for (String option : Arrays.copyOfRange(args, 2, args.length)) {
            String[] pair = option.split("=", 2);
            switch (pair[0]) {
                case "watchdog" -> config.setLockWatchdogTimeout(Long.parseLong(pair[1]));
                case "prefix" -> Dialect.setPrefix(config, servers, pair[1]);
                case "database" -> ((SingleServerConfig) servers).setDatabase(Integer.parseInt(pair[1]));
                case "codec" -> config.setCodec(
                        (Codec) Class.forName(pair[1]).getDeclaredConstructor().newInstance());
                case "retries" -> servers.setRetryAttempts(Integer.parseInt(pair[1]));
                case "protocol" -> Dialect.setEnum(config, "setProtocol", pair[1]);
                case "sharded" -> Dialect.setEnum(servers, "setShardedSubscriptionMode", pair[1]);
                default -> throw new IllegalArgumentException("option " + option);
            }
        }
        return Redisson.create(config);
    }
}
