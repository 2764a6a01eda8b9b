-- Makes a read hold of the write hold of an owner, and wakes waiters: others may read.
--
-- KEYS[1]  the lock, see readwrite.lua
-- KEYS[2]  sentinel of the owner
-- ARGV[1]  owner
-- ARGV[2]  TTL in ms that the hold has at least; nothing is shortened
-- ARGV[3]  channel on which waiters listen
-- ARGV[4]  how to publish; see publish.lua
--
-- Returns  1  done, now or before
--          0  the owner has no hold
--
-- It works when Redis is out of memory; see release.lua. Redisson wakes nobody then. Its
-- readers sleep, or are about to: see writer.lua.

local ttl = tonumber(ARGV[2])
local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1], ARGV[1] .. ':write')
local writes = fields[1] == 'write' and fields[3]
local lasts = redis.call('pttl', KEYS[2])
if not writes and not (fields[1] == 'read' and fields[2] and lasts ~= -2) then
  return 0
end
local pttl = redis.call('pttl', KEYS[1])
if ttl > pttl then -- a key without expiry gets one
  redis.call('pexpire', KEYS[1], ttl)
end
if not writes then
  if ttl > lasts then
    redis.call('pexpire', KEYS[2], ttl)
  end
  return 1
end
redis.call('hdel', KEYS[1], '')
redis.call('set', KEYS[2], '1', 'px', math.max(ttl, pttl, lasts))
redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], '1')
redis.call('hdel', KEYS[1], ARGV[1] .. ':write')
publish(ARGV[3], '0', ARGV[4])
publish(ARGV[3], '1', ARGV[4])
return 1
