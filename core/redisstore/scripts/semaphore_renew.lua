-- Lengthens the TTL of permits whose owner still has them. Never creates a
-- permit, and never shortens one.
--
-- KEYS[1]  permits of a semaphore that are taken, see semaphore_acquire.lua
-- KEYS[2]  the number of free ones; left out while the slot migrates
--          and they are in two places
-- ARGV[1]  TTL in ms
-- ARGV[2]  and on: ids of the permits
--
-- Returns  1  renewed
--          0  not all held
--
-- It works when Redis is out of memory: ZADD may run once the script has
-- written, if only by removing what is not there.

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

for i = 2, #ARGV do
  local till = redis.call('zscore', KEYS[1], ARGV[i])
  if not till or tonumber(till) <= now then
    return 0
  end
end
redis.call('zrem', KEYS[1], '')
for i = 2, #ARGV do
  redis.call('zadd', KEYS[1], 'gt', now + ARGV[1], ARGV[i])
end
local lasts = math.min(redis.call('zrange', KEYS[1], -1, -1, 'withscores')[2] - now, 10 ^ 14) -- Java's may have no end
if redis.call('pttl', KEYS[1]) ~= -1 then
  redis.call('pexpire', KEYS[1], lasts)
end
local ends = KEYS[2] and redis.call('pttl', KEYS[2]) or -1
if ends >= 0 and ends < lasts and redis.call('type', KEYS[2]).ok == 'string'
  and isNumber(redis.call('get', KEYS[2])) then -- else it has become a lock of another mode
  redis.call('pexpire', KEYS[2], lasts)
end
return 1
