-- Lets a writer in, or re-enters, unless somebody else reads or writes.
--
-- KEYS[1]  the lock, see readwrite.lua
-- ARGV[1]  owner
-- ARGV[2]  hold count the owner shall have, 1 or more; absolute
-- ARGV[3]  TTL in ms
-- ARGV[4]  prefix of sentinels
--
-- Returns   as acquire.lua
--
-- A hash without "mode" is a plain lock, held by somebody else. Readers that
-- are dead are removed, at most maxLook in a call; Redisson keeps them for as
-- long as any other reader is there. A reader that wants to write is in its
-- own way. A claim that arrives late lowers neither count nor TTL.

local owner, holds, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local field = owner .. ':write'

-- takes dead readers away; true if none is left.
local function deserted()
  local some, all = readers()
  local dead = {}
  for _, reader in ipairs(some) do
    if left(ARGV[4], reader[1], reader[2]) == 0 then
      dead[#dead + 1] = reader[1]
    end
  end
  if #dead > 0 then
    redis.call('hdel', lock, unpack(dead)) -- "mode" stays, so the hash does
  end
  return all and #dead == #some
end

local pttl = redis.call('pttl', lock)
local mode, own = unpack(redis.call('hmget', lock, 'mode', field))
local mine = mode == 'write' and tonumber(own or nil)
if holds > 1 and not mine then
  return 0
end
if mode == 'read' and deserted() then
  pttl = -2
end
if pttl ~= -2 and not mine then
  if pttl < 0 then
    return -1
  end
  return -2 - pttl
end

redis.call('hset', lock, 'mode', 'write', field, math.max(holds, mine or 0))
if ttl > pttl then
  redis.call('pexpire', lock, ttl)
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
