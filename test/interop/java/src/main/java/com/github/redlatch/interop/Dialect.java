package com.github.redlatch.interop;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;

import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/** What versions of Redisson spell differently, or don't have: called by its name. */
final class Dialect {
    private Dialect() {}

    /** Calls a method that this Redisson may not have, of an interface or of a class. */
    static Object call(Class<?> type, Object target, String method, Object... arguments) throws Exception {
        Method found =
                Arrays.stream(type.getMethods())
                        .filter(m -> m.getName().equals(method) && accepts(m.getParameterTypes(), arguments))
                        .findFirst()
                        .orElseThrow(() -> new UnsupportedOperationException(type + " has no " + method));
        try {
            return found.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    private static boolean accepts(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            if (!types[i].isPrimitive() && !types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }

    /** Sets a property of Redisson's whose type is an enumeration. */
    static void setEnum(Object config, String setter, String value) throws Exception {
        Method found =
                Arrays.stream(config.getClass().getMethods())
                        .filter(m -> m.getName().equals(setter))
                        .findFirst()
                        .orElseThrow(() -> new UnsupportedOperationException("no " + setter));
        Object constant =
                Arrays.stream(found.getParameterTypes()[0].getEnumConstants())
                        .filter(c -> c.toString().equals(value))
                        .findFirst()
                        .orElseThrow(() -> new IllegalArgumentException(value));
        found.invoke(config, constant);
    }

    /** A NameMapper: since 4.0 it is in another package, and is set in another place. */
    static void setPrefix(Config config, BaseConfig<?> servers, String prefix) throws Exception {
        boolean recent = Arrays.stream(Config.class.getMethods()).anyMatch(m -> m.getName().equals("setNameMapper"));
        Class<?> mapper = Class.forName(recent ? "org.redisson.config.NameMapper" : "org.redisson.api.NameMapper");
        Object prefixes =
                Proxy.newProxyInstance(
                        mapper.getClassLoader(),
                        new Class<?>[] {mapper},
                        (proxy, method, arguments) ->
                                switch (method.getName()) {
                                    case "map" -> prefix + arguments[0];
                                    case "unmap" -> ((String) arguments[0]).substring(prefix.length());
                                    default -> throw new UnsupportedOperationException(method.getName());
                                });
        Object target = recent ? config : servers;
        call(target.getClass(), target, "setNameMapper", prefixes);
    }
}
