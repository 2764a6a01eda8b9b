-- Lengthens the TTL of locks whose owner still has them. Never creates a hold,
-- and never shortens one: a renewal that arrives late cuts nothing.
--
-- KEYS[i]        a lock, a hash {owner: hold count}. In a cluster there is one,
--                elsewhere up to 50: more would keep other clients waiting.
-- ARGV[3i - 2]   its owner
-- ARGV[3i - 1]   its TTL in ms
-- ARGV[3i]       key of the owner's first read hold, if it has one: beside the
--                field "mode" that is what the owner's field means. It is not
--                declared, and where it cannot be seen the hold is taken for a
--                plain one that a Redisson reader overlooked.
--
-- Returns one integer for each key: 1 renewed, 0 not held by that owner.
--
-- All keys are read before the first write, so an error (such as a key of
-- another type) changes nothing. PEXPIRE may run when Redis is out of memory.

local held = {}
for i = 1, #KEYS do
  local own, mode = unpack(redis.call('hmget', KEYS[i], ARGV[3 * i - 2], 'mode'))
  local reads = own and mode and redis.pcall('exists', ARGV[3 * i]) == 1
  held[i] = own and not reads and 1 or 0
end
for i = 1, #KEYS do
  local ttl = tonumber(ARGV[3 * i - 1])
  if held[i] == 1 and ttl > redis.call('pttl', KEYS[i]) then
    redis.call('pexpire', KEYS[i], ttl)
  end
end
return held
