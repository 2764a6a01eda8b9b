-- Lengthens the TTL of permits whose owner still has them. Never creates a
-- permit, and never shortens one.
--
-- KEYS[i]  permits of a semaphore, see semaphore_acquire.lua
-- ARGV     for each key, one after the other: TTL in ms; how many ids follow;
--          the ids
--
-- Returns one integer for each key: 1 renewed, 0 not all held.
--
-- Nothing is written before all is read. It works when Redis is out of memory:
-- ZADD may run once the script has written, if only by removing what is not
-- there.

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local held, at = {}, 1
for i = 1, #KEYS do
  held[i] = 1
  for j = at + 2, at + 1 + ARGV[at + 1] do
    local score = redis.call('zscore', KEYS[i], ARGV[j])
    if not score or tonumber(score) <= now then
      held[i] = 0
    end
  end
  at = at + 2 + ARGV[at + 1]
end

at = 1
for i = 1, #KEYS do
  if held[i] == 1 then
    redis.call('zrem', KEYS[i], '')
    for j = at + 2, at + 1 + ARGV[at + 1] do
      redis.call('zadd', KEYS[i], 'gt', now + ARGV[at], ARGV[j])
    end
  end
  at = at + 2 + ARGV[at + 1]
end
return held
