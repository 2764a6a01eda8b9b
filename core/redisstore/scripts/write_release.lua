-- Lowers the writer's hold count, or removes its hold and wakes waiters. A
-- writer that reads as well goes on as a reader.
--
-- KEYS[1]  the lock, see readwrite.lua
-- KEYS[2]  under a minimum hold: sentinel of ARGV[8]
-- ARGV[1]  field of the writer
-- ARGV[2]  hold count that remains, absolute; 0 removes the hold
-- ARGV[3]  channel on which waiters listen
-- ARGV[4]  how to publish; see publish.lua
-- ARGV[5]  prefix of sentinels
-- ARGV[6]  under a minimum hold: the field that keeps the lock, instead of none; and
-- ARGV[7]  for how many ms
-- ARGV[8]  the field that keeps it when the writer goes on as a reader
--
-- Returns  1  done, or nothing to do: the count is not above what remains
--          0  the owner has no hold
--
-- It works when Redis is out of memory; see release.lua. Redisson wakes nobody
-- when the writer goes on as a reader; others may read then, so this does. The lock
-- expires with what it reads, whose sentinel is looked at as in readwrite.lua, but
-- not before the minimum, which nobody writes in then: a field of the writer would
-- last for as long as its owner reads.

local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
if fields[1] ~= 'write' or not fields[2] then
  return 0
end
if ARGV[2] ~= '0' then
  if tonumber(fields[2]) > tonumber(ARGV[2]) then
    redis.call('hdel', KEYS[1], '')
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  end
  return 1
end
local lasts
if redis.call('hlen', KEYS[1]) > 2 then
  local owner = string.match(ARGV[1], '^(.*):write$')
  local sentinel = ARGV[5] .. ':' .. owner .. ':rwlock_timeout:1'
  lasts = redis.pcall('pttl', sentinel)
  if lasts == -2 and redis.pcall('exists', KEYS[1], sentinel) == 1 then -- else it may be where the slot comes from
    redis.call('hdel', KEYS[1], owner) -- it reads no longer
  end
end
if lasts and redis.call('hlen', KEYS[1]) > 2 then -- it reads as well
  local ms, pttl = tonumber(ARGV[7] or 0), redis.call('pttl', KEYS[1])
  lasts = math.max(type(lasts) == 'number' and lasts > 0 and math.min(lasts, pttl) or pttl, ms)
  if pttl >= 0 and lasts ~= pttl then
    redis.call('pexpire', KEYS[1], lasts)
  end
  redis.call('hdel', KEYS[1], ARGV[1])
  redis.call('hset', KEYS[1], 'mode', 'read')
  if ARGV[8] then
    redis.call('hset', KEYS[1], ARGV[8], '1')
    redis.call('set', KEYS[2], '1', 'px', ARGV[7])
  end
elseif ARGV[6] then
  keep(ARGV[1], ARGV[6], ARGV[7])
else
  redis.call('del', KEYS[1])
end
publish(ARGV[3], '1', ARGV[4])
return 1
