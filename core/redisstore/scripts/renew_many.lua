-- Does what renew.lua does, for several locks: up to 50, as more would keep
-- other clients waiting. Where this is refused, outside a cluster, because keys
-- are not literal or not of one slot, renew.lua is sent for each instead.
--
-- KEYS[i]        a lock, a hash {owner: hold count}
-- ARGV[2i - 1]   its owner; of a write lock, the field of its writer
-- ARGV[2i]       its TTL in ms
--
-- Returns one integer for each key: 1 renewed, 0 not held by that owner.
--
-- All keys are read before the first write, so an error (such as a key of
-- another type) changes nothing.

local held = {}
for i = 1, #KEYS do
  local count = redis.call('hget', KEYS[i], ARGV[2 * i - 1])
  held[i] = count and count ~= '0' and 1 or 0 -- 0: handed over, and nobody has it
end
for i = 1, #KEYS do
  local ttl = tonumber(ARGV[2 * i])
  if held[i] == 1 and ttl > redis.call('pttl', KEYS[i]) then
    redis.call('pexpire', KEYS[i], ttl)
  end
end
return held
