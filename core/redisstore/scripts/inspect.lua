-- Reads a lock. It is a script, and not some commands, for one consistent
-- answer, and because clients may send plain reads to replicas, which lag.
--
-- KEYS[1]  the lock
-- KEYS[2]  permits of semaphores
-- KEYS[3]  queue of fair locks. The last keys are left out while the slot migrates
--          and they are not in one place: then they do not show
-- ARGV[1]  prefix of the sentinels of read holds; empty lists dead readers as well
-- ARGV[2]  how many holds and how many waiters to list, so that a lock of many
--          readers costs no more than a lock of few
--
-- Returns  {kind, pttl, holds, waiters, other holds, other waiters}: kind is the
--          type of the key; pttl is in ms, -2 for a free lock and -1 for one
--          without expiry; holds are {field, value, ...} of the hash, mode first,
--          without readers that are dead, or {permit, ms left, ...} of the
--          semaphore; waiters are in order; the last two are how many there are
--          that are not listed, dead readers among them. A string that is no
--          number of permits (an integer of 32 bits) and expires is a lock of the
--          SETNX format: its kind is token, and its hold {token, 1}. Like
--          setnx_inspect it returns strings: nobody waits for it.
--
-- Sentinels of readers are not declared; see readwrite.lua.

local kind = redis.call('type', KEYS[1]).ok
local pttl = redis.call('pttl', KEYS[1])
local most = tonumber(ARGV[2])
local holds, others = {}, 0
local looks = 1000 -- at sentinels, for all readers together

local function alive(owner, count)
  if ARGV[1] == '' then
    return true
  end
  local known = math.min(count, looks)
  for n = 1, known do
    looks = looks - 1
    local seen = redis.pcall('exists', KEYS[1], ARGV[1] .. ':' .. owner .. ':rwlock_timeout:' .. n)
    if seen ~= 1 then -- or an error: not known
      return true
    end
  end
  return count > known
end

if kind == 'string' then
  local token = redis.call('get', KEYS[1])
  if not isNumber(token) then
    if pttl < 0 then
      return redis.error_reply('WRONGTYPE the key holds a string that is no lock')
    end
    return {'token', pttl, {token, '1'}, {}, 0, 0}
  end
  local time = redis.call('time')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local from = '(' .. string.format('%.0f', now)
  local permits = KEYS[2] and redis.call('zrangebyscore', KEYS[2], from, '+inf', 'withscores', 'limit', 0, most) or {}
  for i = 1, #permits, 2 do
    holds[#holds + 1] = permits[i]
    holds[#holds + 1] = permits[i + 1] - now
  end
  others = KEYS[2] and redis.call('zcount', KEYS[2], from, '+inf') - #permits / 2 or 0
elseif kind ~= 'none' then
  local mode = redis.call('hget', KEYS[1], 'mode')
  local fields = redis.call('hrandfield', KEYS[1], most + 1, 'withvalues')
  others = redis.call('hlen', KEYS[1])
  if mode then
    holds = {'mode', mode}
    others = others - 1
  end
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' and #holds < 2 * most + 2 then
      others = others - 1
      local reads = mode and not string.find(fields[i], ':write$')
      if not reads or alive(fields[i], tonumber(fields[i + 1]) or 0) then
        holds[#holds + 1] = fields[i]
        holds[#holds + 1] = fields[i + 1]
      end
    end
  end
end

local waiters = KEYS[3] and redis.call('lrange', KEYS[3], 0, most - 1) or {}
local more = #waiters == most and redis.call('llen', KEYS[3]) - most or 0
return {kind, pttl, holds, waiters, others, more}
