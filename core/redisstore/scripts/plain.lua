-- What acquires of a plain lock begin with: it returns what refuses the claim.
--
-- KEYS[1]  the lock: a hash {owner: hold count}
-- ARGV[1]  owner
-- ARGV[2]  hold count the owner shall have
-- ARGV[3]  TTL in ms
--
-- Leaves pttl, which is negative for a lock that is free or does not expire, and
-- mine: the hold count that the owner has, if it has one.

local pttl = redis.call('pttl', KEYS[1])
local mine
if pttl ~= -2 then
  local fields = redis.call('hmget', KEYS[1], ARGV[1], 'mode')
  mine = fields[1] and not fields[2] and tonumber(fields[1])
end
if not mine then
  if ARGV[2] ~= '1' then
    return 0
  end
  if pttl == -1 then
    return -1
  end
  if pttl ~= -2 then
    return -2 - pttl
  end
end
