package com.github.redlatch.interop;

import org.redisson.api.NameMapper;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/**
 * What Redisson 3.17 spells differently from 4.7. It knows neither
 * sharded publish/subscribe (since 3.22) nor fenced locks (since 3.19).
 */
final class Dialect {
    private Dialect() {}

    static void setPrefix(Config config, BaseConfig<?> servers, String prefix) {
        servers.setNameMapper(
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
        throw new UnsupportedOperationException("sharded publish/subscribe");
    }

    static void setProtocol(Config config, String protocol) {
        throw new UnsupportedOperationException("protocols");
    }

    static RLock nonReentrant(RedissonClient redisson, String name) {
        throw new UnsupportedOperationException("a lock that is not re-entrant");
    }

    static RLock fenced(RedissonClient redisson, String name) {
        throw new UnsupportedOperationException("fenced lock");
    }

    static Object onFenced(RedissonClient redisson, String[] words) {
        throw new UnsupportedOperationException("fenced lock");
    }
}
