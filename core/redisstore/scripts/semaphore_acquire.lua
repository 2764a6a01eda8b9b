-- Takes permits of a semaphore, all or none. A claim goes by the size that it
-- names itself; that of the last grant is what Redisson sees.
--
-- KEYS[1]  the semaphore: the number of permits that are free
-- KEYS[2]  the permits that are taken: a sorted set, id -> when it expires, in
--          ms of the server's clock
-- ARGV[1]  size
-- ARGV[2]  TTL in ms
-- ARGV[3]  channel on which waiters listen
-- ARGV[4]  how to publish; see publish.lua
-- ARGV[5]  and on: ids of the permits: the owner, "/" and a number
--
-- Returns   > 0           granted; the number is the fence
--            -1           busy, and no permit that is taken expires
--            -2 - ms      busy for so long: until the first permit expires
--
-- The ids are the owner's, always the same, so a repetition takes nothing. A
-- refused claim writes nothing but that permits have expired.
--
-- Both keys expire with the last permit, unless Redisson has set the number
-- without an end: to Redisson no number means no permits.

local size, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = redis.call('get', KEYS[1])
local free = tonumber(count or 0)
if count and not isNumber(count) then
  return redis.error_reply('WRONGTYPE the key holds a string that is no semaphore')
end
local expired = redis.call('zcount', KEYS[2], '-inf', now)
local taken, missing = redis.call('zcard', KEYS[2]) - expired, 0
for i = 5, #ARGV do
  if tonumber(redis.call('zscore', KEYS[2], ARGV[i]) or 0) <= now then
    missing = missing + 1
  end
end
if missing > 0 and taken + missing > size then
  if expired > 0 then
    redis.call('zremrangebyscore', KEYS[2], '-inf', now)
    free = count and redis.call('incrby', KEYS[1], expired) or 0
    if free > 0 then
      publish(ARGV[3], free, ARGV[4])
    end
  end
  local first = tonumber(redis.call('zrange', KEYS[2], 0, 0, 'withscores')[2])
  if first >= 922337203685477 then -- Redisson's never
    return -1
  end
  return -2 - (first - now)
end

for i = 5, #ARGV do -- the first write, so that a full memory refuses it
  redis.call('zadd', KEYS[2], 'gt', now + ttl, ARGV[i])
end
if expired > 0 then
  redis.call('zremrangebyscore', KEYS[2], '-inf', now)
end
local left = size - taken - missing
if redis.call('pttl', KEYS[1]) == -1 then
  redis.call('set', KEYS[1], left)
  redis.call('persist', KEYS[2])
else
  local lasts = math.min(redis.call('zrange', KEYS[2], -1, -1, 'withscores')[2] - now, 10 ^ 14) -- Java's may have no end
  redis.call('set', KEYS[1], left, 'px', lasts)
  redis.call('pexpire', KEYS[2], lasts)
end
if left > 0 and left > free - missing then
  publish(ARGV[3], left, ARGV[4])
end
return time[1] * 1000000 + time[2]
