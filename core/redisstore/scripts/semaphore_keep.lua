-- Releases permits under a minimum hold: they stay taken under other ids, which no
-- call of the owner names, until that ends. Waiters are woken, as that may be earlier than they
-- know.
--
-- KEYS[1]  the semaphore, see semaphore_acquire.lua
-- KEYS[2]  its permits that are taken
-- ARGV[1]  for how many ms
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  how to publish; see publish.lua
-- ARGV[4]  and on: the id of a permit, the id that keeps it, and so on
--
-- Returns  1  done
--          0  the owner does not have all of them. The ones that it has are kept.
--
-- It works when Redis is out of memory: ZADD may run once the script has
-- written, if only by removing what is not there.

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local mine = 0
for i = 4, #ARGV, 2 do
  local till = redis.call('zscore', KEYS[2], ARGV[i])
  if till and tonumber(till) > now then
    mine = mine + 1
    redis.call('zrem', KEYS[2], '')
    redis.call('zadd', KEYS[2], now + ARGV[1], ARGV[i + 1])
    redis.call('zrem', KEYS[2], ARGV[i])
  end
end
if mine > 0 then
  local lasts = math.min(redis.call('zrange', KEYS[2], -1, -1, 'withscores')[2] - now, 10 ^ 14) -- Java's may have no end
  if redis.call('pttl', KEYS[2]) >= 0 then
    redis.call('pexpire', KEYS[2], lasts)
  end
  local count = redis.call('type', KEYS[1]).ok == 'string' and redis.call('get', KEYS[1])
  if count and isNumber(count) and redis.call('pttl', KEYS[1]) >= 0 then -- else it is a lock of another mode
    redis.call('pexpire', KEYS[1], lasts)
  end
  publish(ARGV[2], mine, ARGV[3])
end
if mine == (#ARGV - 3) / 2 then
  return 1
end
return 0
