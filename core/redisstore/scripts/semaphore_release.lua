-- Returns permits and wakes waiters.
--
-- KEYS[1]  the semaphore, see semaphore_acquire.lua
-- KEYS[2]  its permits that are taken
-- ARGV[1]  channel on which waiters listen
-- ARGV[2]  how to publish; see publish.lua
-- ARGV[3]  and on: ids of the permits
--
-- Returns  1  done
--          0  the owner does not have them. If it has some of them, because
--             somebody else returned the others, these are returned.
--
-- The last permit takes a number that Go has made with it, so that the key is free
-- for locks. What others have lasts as long as the longest of them.
--
-- It works when Redis is out of memory: INCRBY may run once the script has
-- removed something. Nothing is looked at that may be gone; see release.lua.

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = redis.call('get', KEYS[1]) -- fails before anything is lost
local counted = count and isNumber(count)

local found, back, mine = {}, 0, 0
for i = 3, #ARGV do
  local till = redis.call('zscore', KEYS[2], ARGV[i])
  if till then
    if not found[ARGV[i]] then -- an id may be there twice
      found[ARGV[i]], back = true, back + 1
    end
    if tonumber(till) > now then
      mine = mine + 1
    end
  end
end
if back > 0 then
  local lasts, longest = 0, false -- for how long others have permits; whether the owner's last longer
  local ends = counted and redis.call('pttl', KEYS[1]) >= 0
  if ends then
    local last = redis.call('zrange', KEYS[2], -1 - back, -1, 'withscores')
    for i = 1, #last, 2 do
      longest = found[last[i]]
      if not longest then
        lasts = math.min(last[i + 1] - now, 10 ^ 14) -- Java's may have no end
      end
    end
  end
  if ends and lasts <= 0 then
    redis.call('del', KEYS[1], KEYS[2]) -- with the permits that have expired
  else
    for i = 3, #ARGV do
      if found[ARGV[i]] then
        found[ARGV[i]] = nil
        redis.call('zrem', KEYS[2], ARGV[i])
      end
    end
    if counted then
      redis.call('incrby', KEYS[1], back)
    end
    if ends and (longest or redis.call('pttl', KEYS[1]) < lasts) then
      redis.call('pexpire', KEYS[1], lasts)
      redis.call('pexpire', KEYS[2], lasts)
    end
  end
  publish(ARGV[1], back, ARGV[2])
end
if mine == #ARGV - 2 then
  return 1
end
return 0
