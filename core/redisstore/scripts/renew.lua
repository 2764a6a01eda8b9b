-- Sets the TTL of locks whose owner still has them. Never creates a hold.
--
-- KEYS[i]        a lock, a hash {owner: hold count}. In a cluster there is one,
--                elsewhere up to 50: more would keep other clients waiting.
-- ARGV[2i - 1]   its owner
-- ARGV[2i]       its TTL in ms
--
-- Returns one integer for each key: 1 renewed, 0 not held by that owner.
--
-- All keys are read before the first write, so an error (such as a key of
-- another type) changes nothing. PEXPIRE may run when Redis is out of memory.

local held = {}
for i = 1, #KEYS do
  held[i] = redis.call('hexists', KEYS[i], ARGV[2 * i - 1])
end
for i = 1, #KEYS do
  if held[i] == 1 then
    redis.call('pexpire', KEYS[i], ARGV[2 * i])
  end
end
return held
