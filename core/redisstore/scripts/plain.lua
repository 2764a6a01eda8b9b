-- What acquires of a plain lock begin with: it returns what refuses the claim.
--
-- KEYS[1]  the lock: a hash {owner: hold count}
-- ARGV[1]  owner
-- ARGV[2]  hold count the owner shall have
-- ARGV[3]  TTL in ms
--
-- Leaves lock, owner, holds and ttl; mine: whether the owner has the lock; and
-- pttl, which is negative for a lock that is free or does not expire. holds is
-- never less than what the owner has: a claim that arrives late lowers nothing.

local lock, owner = KEYS[1], ARGV[1]
local holds, ttl = tonumber(ARGV[2]), tonumber(ARGV[3])

local free = redis.call('exists', lock) == 0
local mine = not free and redis.call('hexists', lock, owner) == 1
  and redis.call('hexists', lock, 'mode') == 0

if holds > 1 and not mine then
  return 0
end
if mine then
  holds = math.max(holds, tonumber(redis.call('hget', lock, owner)))
end
local pttl = redis.call('pttl', lock)
if not free and not mine then
  if pttl < 0 then
    return -1
  end
  return -2 - pttl
end
