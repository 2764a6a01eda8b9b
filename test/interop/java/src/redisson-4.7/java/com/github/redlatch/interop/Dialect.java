package com.github.redlatch.interop;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.NameMapper;
import org.redisson.config.Protocol;
import org.redisson.config.ShardedSubscriptionMode;

/** What Redisson 4.7 spells differently from 3.17, or has and 3.17 has not. */
final class Dialect {
    private Dialect() {}

    static void setPrefix(Config config, BaseConfig<?> servers, String prefix) {
        config.setNameMapper(
                new NameMapper() {
                    @Override
                    public String map(String name) {
                        return prefix + name;
                    }

                    @Override
                    public String unmap(String name) {
                        return name.substring(prefix.length());
                    }
                });
    }

    static void setSharded(BaseConfig<?> servers, String mode) {
        ((ClusterServersConfig) servers).setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(mode));
    }

    static void setProtocol(Config config, String protocol) {
        config.setProtocol(Protocol.valueOf(protocol));
    }

    static RLock nonReentrant(RedissonClient redisson, String name) {
        return redisson.getNonReentrantLock(name);
    }

    static RLock fenced(RedissonClient redisson, String name) {
        return redisson.getFencedLock(name);
    }

    static Object onFenced(RedissonClient redisson, String[] words) {
        RFencedLock lock = redisson.getFencedLock(words[1]);
        return switch (words[0]) {
            case "fenced.lock" -> lock.lockAndGetToken();
            case "fenced.token" -> lock.getToken();
            default -> throw new IllegalArgumentException("command " + words[0]);
        };
    }
}
