-- Reads a latch. It is a script because clients may send plain reads to
-- replicas, which lag.
--
-- KEYS[1]  the latch, see latch_set.lua
--
-- Returns what is left to count, 0 for an open latch

local left = tonumber(redis.call('get', KEYS[1]) or 0)
return left or redis.error_reply('WRONGTYPE the key holds a string that is no latch')
