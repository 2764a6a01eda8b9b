-- Lengthens the TTL of a lock whose owner still has it. Never creates a hold,
-- and never shortens one: a renewal that arrives late cuts nothing.
--
-- KEYS[1]  the lock, a hash {owner: hold count}
-- ARGV[1]  its owner; of a write lock, the field of its writer
-- ARGV[2]  its TTL in ms
--
-- Returns  1  renewed
--          0  not held by that owner
--
-- PEXPIRE may run when Redis is out of memory.

local count = redis.call('hget', KEYS[1], ARGV[1])
if not count or count == '0' then -- 0: handed over, and nobody has it
  return 0
end
if tonumber(ARGV[2]) > redis.call('pttl', KEYS[1]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
