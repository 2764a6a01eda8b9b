-- Takes permits of a semaphore, all or none. The first call sets its size.
--
-- KEYS[1]  the semaphore: the number of permits that are free
-- KEYS[2]  the permits that are taken: a sorted set, id -> when it expires, in
--          ms of the server's clock
-- ARGV[1]  size
-- ARGV[2]  TTL in ms
-- ARGV[3]  1, or more if the owner must have the permits already
-- ARGV[4]  channel on which waiters listen
-- ARGV[5]  commands to publish with, separated by spaces
-- ARGV[6]  and on: ids of the permits, of 16 bytes
--
-- Returns   > 0           granted; the number is the fence
--             0           not granted: the owner must have the permits, and
--                         has not
--            -1           busy, and no permit that is taken expires
--            -2 - ms      busy for so long: until the first permit expires
--            -2^52 - n    refused: the size is n, and permits are taken
--
-- The ids are the owner's, always the same, so a repetition takes nothing.

local size, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted = #ARGV - 5

local function publish(n)
  for command in string.gmatch(ARGV[5], '%a+') do
    redis.call(command, ARGV[4], n)
  end
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = redis.call('get', KEYS[1])
local free = tonumber(count or nil)
if count and not free then
  return redis.error_reply('WRONGTYPE the key holds a text, not a semaphore')
end
local reclaimed = redis.call('zremrangebyscore', KEYS[2], 0, now)
local taken = redis.call('zcard', KEYS[2])
if free and reclaimed > 0 then
  free = redis.call('incrby', KEYS[1], reclaimed)
  if free > 0 then
    publish(free)
  end
end

if not free or taken == 0 and free ~= size then
  free = size - taken
  if free < 0 then
    return -4503599627370496 - taken
  end
  redis.call('set', KEYS[1], free)
  publish(free)
elseif free + taken ~= size then
  return -4503599627370496 - (free + taken)
end

local missing = 0
local ends = {}
for i = 1, wanted do
  local score = redis.call('zscore', KEYS[2], ARGV[5 + i])
  ends[i] = math.max(now + ttl, tonumber(score or 0))
  if not score then
    missing = missing + 1
  end
end
if missing > 0 and tonumber(ARGV[3]) > 1 then
  return 0
end
if missing > free then
  local first = redis.call('zrange', KEYS[2], 0, 0, 'withscores')
  if not first[2] or tonumber(first[2]) >= 922337203685477 then -- Redisson's never
    return -1
  end
  return -2 - (first[2] - now)
end

if missing > 0 then
  redis.call('decrby', KEYS[1], missing)
end
for i = 1, wanted do
  redis.call('zadd', KEYS[2], ends[i], ARGV[5 + i])
end
local pttl = redis.call('pttl', KEYS[1])
if pttl > 0 then -- Redisson can give a semaphore an end
  redis.call('pexpire', KEYS[2], pttl)
end
return time[1] * 1000000 + time[2]
