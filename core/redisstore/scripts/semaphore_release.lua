-- Returns permits and wakes waiters.
--
-- KEYS[1]  the semaphore, see semaphore_acquire.lua
-- KEYS[2]  its permits that are taken
-- ARGV[1]  0, or more to ask only whether the owner has the permits
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  how to publish; see publish.lua
-- ARGV[4]  and on: ids of the permits
--
-- Returns  1  done
--          0  the owner does not have them. If it has some of them, because
--             somebody else returned the others, these are returned.
--
-- It works when Redis is out of memory: INCRBY may run once the script has
-- removed something. Nothing is looked at that may be gone; see release.lua.

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local counted = tonumber(redis.call('get', KEYS[1]) or nil) -- fails before anything is lost

local found, mine = {}, 0
for i = 4, #ARGV do
  local till = redis.call('zscore', KEYS[2], ARGV[i])
  if till then
    found[#found + 1] = ARGV[i]
    if tonumber(till) > now then
      mine = mine + 1
    end
  end
end
if ARGV[1] == '0' and #found > 0 then
  local back = 0 -- an id may be there twice
  for _, id in ipairs(found) do
    back = back + redis.call('zrem', KEYS[2], id)
  end
  if counted then
    redis.call('incrby', KEYS[1], back)
  end
  publish(ARGV[2], back, ARGV[3])
end
if mine == #ARGV - 3 then
  return 1
end
return 0
