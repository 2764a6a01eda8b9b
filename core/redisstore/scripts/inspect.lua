-- Reads a lock. It is a script, and not some commands, for one consistent
-- answer, and because clients may send plain reads to replicas, which lag.
--
-- KEYS[1]  the lock
-- KEYS[2]  permits of semaphores
-- KEYS[3]  queue of fair locks. The last keys are left out while the slot migrates
--          and they are not in one place: then they do not show
-- ARGV[1]  prefix of the sentinels of read holds
--
-- Returns  {kind, pttl, holds, waiters}: kind is the type of the key; pttl is
--          in ms, -2 for a free lock and -1 for one without expiry; holds are
--          {field, value, ...} of the hash, without readers that are dead, or
--          {permit, ms left, ...} of the semaphore; waiters are in order. The
--          only script that returns strings: nobody waits for it.
--
-- Sentinels of readers are not declared; see readwrite.lua.

local kind = redis.call('type', KEYS[1]).ok
local pttl = redis.call('pttl', KEYS[1])
local holds = {}

local function alive(owner, count)
  for n = 1, math.min(count, 1000) do
    local seen = redis.pcall('exists', KEYS[1], ARGV[1] .. ':' .. owner .. ':rwlock_timeout:' .. n)
    if seen ~= 1 then -- or an error: not known
      return true
    end
  end
  return count > 1000
end

if kind == 'string' then
  if not tonumber(redis.call('get', KEYS[1])) then
    return redis.error_reply('WRONGTYPE the key holds a string that is no lock')
  end
  local time = redis.call('time')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local permits = KEYS[2] and redis.call('zrangebyscore', KEYS[2], '(' .. string.format('%.0f', now), '+inf', 'withscores') or {}
  for i = 1, #permits, 2 do
    holds[#holds + 1] = permits[i]
    holds[#holds + 1] = permits[i + 1] - now
  end
elseif kind ~= 'none' then
  local fields = redis.call('hgetall', KEYS[1])
  local mode = redis.call('hget', KEYS[1], 'mode')
  for i = 1, #fields, 2 do
    local reads = mode and fields[i] ~= 'mode' and not string.find(fields[i], ':write$')
    if not reads or alive(fields[i], tonumber(fields[i + 1]) or 0) then
      holds[#holds + 1] = fields[i]
      holds[#holds + 1] = fields[i + 1]
    end
  end
end

local waiters = KEYS[3] and redis.call('lrange', KEYS[3], 0, -1) or {}
return {kind, pttl, holds, waiters}
