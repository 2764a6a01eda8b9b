-- Grants a lock of the SETNX format, or lengthens it for its owner, unless
-- somebody else has it.
--
-- KEYS[1]  the lock: a string, the token of its owner
-- ARGV[1]  token
-- ARGV[2]  hold count the owner shall have, 1 or more; the format keeps no count
-- ARGV[3]  TTL in ms
--
-- Returns   > 0          granted; the number is the fence, as of acquire.lua
--             0          not granted: the claim re-enters (count > 1) a lock
--                        that the owner does not have
--            -1          busy, and the key has no expiry
--            -2 - pttl   busy for pttl more ms
--
-- A repetition finds its own token and is granted again. A key of another type
-- is a lock of another format: busy. A server whose memory is full refuses SET before it
-- looks at the key: that is the answer only if the key is free.

local set = ARGV[2] == '1' and redis.pcall('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[3])
if set and set.err and not string.find(set.err, 'OOM', 1, true) then
  return set
end
if not set or set.err then
  local mine = redis.pcall('get', KEYS[1]) == ARGV[1]
  if not mine and ARGV[2] ~= '1' then
    return 0
  end
  local pttl = redis.call('pttl', KEYS[1])
  if set and pttl == -2 then
    return set
  end
  if not mine then
    return -2 - pttl
  end
  if tonumber(ARGV[3]) > pttl then -- never shortens; a key without expiry gets one
    redis.call('pexpire', KEYS[1], ARGV[3])
  end
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
