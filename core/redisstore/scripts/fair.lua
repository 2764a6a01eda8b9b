-- What the scripts of fair locks have in common. It is put in front of each,
-- behind publish.lua.
--
-- KEYS[1]  the lock, a hash {owner: hold count}
-- KEYS[2]  the queue, a list of places in the order of their arrival
-- KEYS[3]  the patience, a sorted set: when each place is given up, in ms of
--          the server's clock
--
-- All three are Redisson's. In a cluster a key that does not exist makes the
-- call fail with TRYAGAIN while the slot migrates, before anything has run.
--
-- A place is the name of its owner. One of ours ends in ":redlatch": a release
-- may give its owner the lock. Nobody else reads these names: they are compared,
-- and are the end of a channel. One of ours is woken on the channel of its locker,
-- which has one subscription for all of its places. Redisson wakes it on the
-- channel of the place, as it does its own.
--
-- A place of ours lasts for a short time, which its owner renews by asking
-- again: the dead delay nobody for longer. A place of Redisson lasts for as long
-- as its owner means to wait, and when it is served or leaves, that wait is taken
-- from the time of all others. So a place of ours behind one of Redisson's has to
-- last for longer.

local place, grace, wait = 15000, 5000, 300000 -- ms; wait is Redisson's default
local maxPurge = 1000

-- the server's clock in ms, and as a fence.
local function clock()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000), time[1] * 1000000 + time[2]
end

local function first()
  return redis.call('lindex', KEYS[2], 0)
end

-- removes places that are given up from head on, the first of the queue, and
-- returns the head that remains and its time. A head without a time would stay for
-- ever, so it is removed as well.
local function purge(head, now)
  for _ = 1, maxPurge do
    local till = head and tonumber(redis.call('zscore', KEYS[3], head) or 0)
    if not head or till > now then
      return head, till
    end
    local second = redis.call('lindex', KEYS[2], 1) -- before the queue may be gone
    redis.call('lpop', KEYS[2])
    redis.call('zrem', KEYS[3], head)
    head = second
  end
  return head, now
end

-- takes a place out of the queue; true if it was there.
local function leave(name)
  if redis.call('zrem', KEYS[3], name) == 0 then
    return false
  end
  redis.call('lrem', KEYS[2], 1, name)
  return true
end

-- the owner of a place of ours.
local function ours(name)
  return string.match(name, '^(.+):redlatch$')
end

-- the locker of a place of ours, or else the place.
local function lockerOf(name)
  return string.match(name, '^(.+):[^:]*:redlatch$') or name
end

-- wakes the owner of a place. channels are those of the queue, without their end.
local function wake(name, channels, how)
  publish(channels .. lockerOf(name), '0', how)
end
