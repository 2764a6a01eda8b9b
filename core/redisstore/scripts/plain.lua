-- What acquires of a plain lock begin with: it returns what refuses the claim.
--
-- KEYS[1]  the lock: a hash {owner: hold count}; Java's counts may be more than 1
-- ARGV[1]  owner
--
-- Leaves pttl, which is negative for a lock that is free or does not expire, and
-- mine: whether the owner has the lock.

local pttl = redis.call('pttl', KEYS[1])
local mine
if pttl ~= -2 then
  local fields = redis.call('hmget', KEYS[1], ARGV[1], 'mode')
  mine = fields[1] and not fields[2]
  if not mine then
    return -2 - pttl
  end
end
