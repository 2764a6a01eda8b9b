-- Grants several locks, or none.
--
-- KEYS[i]        a lock: a hash {owner: hold count}, as Redisson's getLock
--                writes. In a cluster all are of one slot.
-- ARGV[2i - 1]   its owner
-- ARGV[2i]       its TTL in ms
--
-- Returns   > 0          granted; the number is the fence of them all
--            -1          one is busy, and the hold in the way has no expiry
--            -2 - pttl   one is busy for pttl more ms
--
-- All keys are read before the first write. A lock that its owner has already
-- was granted by a call whose reply was lost: it counts as free, and loses
-- nothing.

for i, lock in ipairs(KEYS) do
  local owner = ARGV[2 * i - 1]
  if redis.call('exists', lock) == 1
    and (redis.call('hexists', lock, owner) == 0 or redis.call('hexists', lock, 'mode') == 1) then
    local pttl = redis.call('pttl', lock)
    if pttl < 0 then
      return -1
    end
    return -2 - pttl
  end
end
for i, lock in ipairs(KEYS) do
  local ttl = tonumber(ARGV[2 * i])
  if redis.call('hexists', lock, ARGV[2 * i - 1]) == 0 then
    redis.call('hset', lock, ARGV[2 * i - 1], 1)
  end
  if ttl > redis.call('pttl', lock) then
    redis.call('pexpire', lock, ttl)
  end
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
