-- Lengthens the TTL of read holds whose owner still has them. Never creates a
-- hold, never shortens one, and never keeps another owner's.
--
-- For each claim, one after the other:
-- KEYS         the lock, see readwrite.lua; sentinels of the owner's holds 1..n
-- ARGV         owner; TTL in ms; n
--
-- Returns one integer for each claim: 1 renewed, 0 not held by that owner.
--
-- Nothing is written before all is read.

local held, at = {}, 1
local claims = #ARGV / 3
for i = 1, claims do
  local owner, n = ARGV[3 * i - 2], tonumber(ARGV[3 * i])
  local mode, own = unpack(redis.call('hmget', KEYS[at], 'mode', owner))
  held[i] = 0
  for j = at + 1, at + n do
    if mode and own and redis.call('exists', KEYS[j]) == 1 then
      held[i] = 1
    end
  end
  at = at + 1 + n
end

at = 1
for i = 1, claims do
  local ttl, n = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  if held[i] == 1 then
    for j = at, at + n do
      if redis.call('pttl', KEYS[j]) < ttl then
        redis.call('pexpire', KEYS[j], ttl)
      end
    end
  end
  at = at + 1 + n
end
return held
