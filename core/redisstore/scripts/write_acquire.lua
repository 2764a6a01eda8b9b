-- Lets a writer in unless somebody else reads or writes.
--
-- KEYS[1]  the lock, see readwrite.lua
-- ARGV[1]  field of the writer
-- ARGV[2]  TTL in ms
-- ARGV[3]  prefix of sentinels
--
-- Returns   as acquire.lua
--
-- A hash without "mode" is a plain lock, held by somebody else. Readers that
-- are dead are removed, at most maxLook in a call; Redisson keeps them for as
-- long as any other reader is there. A reader that wants to write is in its
-- own way, and so is an owner that reads since Lower. A repetition may lengthen the TTL,
-- and changes nothing else.

local ttl = tonumber(ARGV[2])

-- takes dead readers away; true if none is left. "mode" stays, so the hash does.
local function deserted()
  local some, all = readers(maxLook + 2)
  for _, reader in ipairs(some) do
    if left(ARGV[3], reader[1], reader[2]) ~= 0 then
      all = false
    else
      redis.call('hdel', KEYS[1], reader[1])
    end
  end
  return all
end

local pttl = redis.call('pttl', KEYS[1])
local mode, mine
if pttl ~= -2 then
  local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
  mode, mine = fields[1], fields[1] == 'write' and fields[2]
end
if mode == 'read' and deserted() then
  pttl = -2
end
if pttl ~= -2 and not mine then
  return -2 - pttl
end

if not mine then
  redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], '1')
end
if ttl > pttl then
  redis.call('pexpire', KEYS[1], ttl)
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
