-- Grants the lock unless another owner has it; the fence is the counter of
-- Redisson's getFencedLock.
--
-- KEYS[1]  the lock: a hash {owner: 1}
-- KEYS[2]  the counter, of which Redisson never lets go
-- ARGV[1]  owner
-- ARGV[2]  TTL in ms
--
-- Returns   as acquire.lua
--
-- Unlike Redisson's, the counter rises with a grant only, not with a repetition. A
-- counter that was lost while the lock was held starts anew.

-- First, as it fails if the counter is something else.
local fence = tonumber(redis.call('get', KEYS[2]) or 0)
if not mine or not fence or fence < 1 then
  if not fence or fence < 0 or fence >= 9007199254740991 then -- a double counts no further: fences would repeat
    return redis.error_reply('ERR the counter of fences is no number, below zero, or at 2^53')
  end
  fence = redis.call('incr', KEYS[2])
end
if not mine then
  redis.call('hset', KEYS[1], ARGV[1], '1')
end
if tonumber(ARGV[2]) > pttl then -- never shortens; a key without expiry gets one
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return fence
