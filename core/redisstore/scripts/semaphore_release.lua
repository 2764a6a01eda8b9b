-- Gives permits back and wakes waiters.
--
-- KEYS[1]  the semaphore, see semaphore_acquire.lua
-- KEYS[2]  its permits that are taken
-- ARGV[1]  0, or more to ask only whether the owner has the permits
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  commands to publish with, separated by spaces
-- ARGV[4]  and on: ids of the permits
--
-- Returns  1  done
--          0  the owner does not have them. If it has some of them, because
--             somebody else gave back the others, these are given back.
--
-- It works when Redis is out of memory: INCRBY may run once the script has
-- removed something.

local function publish(n)
  for command in string.gmatch(ARGV[3], '%a+') do
    redis.call(command, ARGV[2], n)
  end
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wanted = #ARGV - 3
local ids = {unpack(ARGV, 4)}

local back, mine = 0, 0
for _, id in ipairs(ids) do
  local score = redis.call('zscore', KEYS[2], id)
  if score and tonumber(score) > now then
    mine = mine + 1
  end
end
if tonumber(ARGV[1]) == 0 then
  for _, id in ipairs(ids) do
    back = back + redis.call('zrem', KEYS[2], id)
  end
end
if back > 0 and redis.call('exists', KEYS[1]) == 1 then
  redis.call('incrby', KEYS[1], back)
  publish(back)
end
return mine == wanted and 1 or 0
