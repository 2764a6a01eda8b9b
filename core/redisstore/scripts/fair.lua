-- What the scripts of fair locks have in common. It is put in front of each.
--
-- KEYS[1]  the lock, a hash {owner: hold count}
-- KEYS[2]  the queue, a list of owners in the order of their arrival
-- KEYS[3]  the patience, a sorted set: when each queued owner is given up, in
--          ms of the server's clock
--
-- In the queue and in the patience an owner to whom the lock may be given with
-- the release of another has the name "owner:transfer:ms", where ms is how long
-- it means to wait; all others have their own. Nobody else reads these names:
-- they are compared, and are the end of a channel. (A mark in the score would
-- not do: Redisson makes the score of a place from that of the place before.)
--
-- All three are Redisson's. In a cluster a key that does not exist makes the
-- call fail with TRYAGAIN while the slot migrates, before anything has run.
--
-- No loop here is longer than the queue, and what is done for the dead is
-- limited to maxPurge of them in one call.

local lock, queue, patience = KEYS[1], KEYS[2], KEYS[3]
local maxPurge = 32

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- removes owners that are given up from the head of the queue. Returns the
-- head, nil for an empty queue, and how many were removed. A head without a
-- place in the sorted set would stay for ever, so it is removed as well.
local function purge()
  local left, removed = redis.call('llen', queue), 0
  while left > 0 do
    local head = redis.call('lindex', queue, 0)
    local score = redis.call('zscore', patience, head)
    if removed == maxPurge or score and tonumber(score) > now then
      return head, removed
    end
    redis.call('lpop', queue)
    redis.call('zrem', patience, head)
    left, removed = left - 1, removed + 1
  end
  return nil, removed
end

-- takes back from an owner's score what the wait of one before it had added.
-- Redisson stops nowhere, and so gives up owners that wait for long while
-- those before them hold the lock for long: not below now + wait.
local function advance(owner, score, wait)
  local floor = math.min(score, now + wait)
  redis.call('zadd', patience, math.max(score - wait, floor), owner)
end

-- takes the head, of that name, out of the queue, as it has got the lock.
local function serve(head, wait)
  local others = redis.call('zrange', patience, 0, -1, 'withscores')
  for i = 1, #others, 2 do
    if others[i] ~= head then
      advance(others[i], tonumber(others[i + 1]), wait)
    end
  end
  redis.call('zrem', patience, head)
  redis.call('lpop', queue)
end

local function publish(name, message, prefix, commands)
  for command in string.gmatch(commands, '%a+') do
    redis.call(command, prefix .. name, message)
  end
end

local function wake(name, prefix, commands)
  publish(name, '0', prefix, commands)
end
