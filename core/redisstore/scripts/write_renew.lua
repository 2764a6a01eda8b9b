-- Lengthens the TTL of locks whose writer still has them. Never creates a hold,
-- and never shortens one.
--
-- KEYS[i]       a lock, see readwrite.lua
-- ARGV[2i - 1]  its owner
-- ARGV[2i]      its TTL in ms
--
-- Returns one integer for each key: 1 renewed, 0 not held by that owner.
--
-- All keys are read before the first write.

local held = {}
for i = 1, #KEYS do
  held[i] = redis.call('hexists', KEYS[i], ARGV[2 * i - 1] .. ':write')
end
for i = 1, #KEYS do
  local lock, ttl = KEYS[i], tonumber(ARGV[2 * i])
  if held[i] == 1 and redis.call('pttl', lock) < ttl then
    redis.call('pexpire', lock, ttl)
  end
end
return held
