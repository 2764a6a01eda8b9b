-- What the scripts of read/write locks have in common. It is put in front of
-- each.
--
-- KEYS[1]  the lock, a hash: "mode" is read or write, {owner} counts read
--          holds, {owner}:write those of the writer
--
-- Each read hold has a sentinel besides, a key that expires with it: prefix,
-- owner, its number. Those of the calling owner are declared. Those of other
-- owners cannot be: who they are is in the hash. They are in the slot of the
-- lock, and looked at together with it. While that slot migrates such a look
-- fails if one of the keys is not there, and its owner counts as alive.

local lock = KEYS[1]
local maxLook = 100 -- readers looked at in a call
local maxCount = 1000 -- sentinels of one reader

-- what is left in ms of the longest read hold of an owner: 0 if it has none,
-- -1 if that cannot be known.
local function left(prefix, owner, count)
  if count > maxCount then
    return -1
  end
  local names = {}
  for i = 1, count do
    names[i] = prefix .. ':' .. owner .. ':rwlock_timeout:' .. i
  end
  local seen = redis.pcall('exists', lock, unpack(names))
  if type(seen) ~= 'number' then
    return -1
  end
  local longest = 0
  for i = 1, seen > 1 and count or 0 do
    local pttl = redis.call('pttl', names[i])
    if pttl == -1 then
      return -1
    end
    if pttl ~= -2 then
      longest = math.max(longest, pttl, 1)
    end
  end
  return longest
end

-- some readers, their counts, and whether these are all there are.
local function readers()
  local found = redis.call('hrandfield', lock, maxLook + 2, 'withvalues')
  local some = {}
  for i = 1, #found, 2 do
    local count = tonumber(found[i + 1])
    if count and not string.find(found[i], ':write$') then
      some[#some + 1] = {found[i], count}
    end
  end
  return some, #found / 2 < maxLook + 2
end

local function publish(channel, message, commands)
  for command in string.gmatch(commands, '%a+') do
    redis.call(command, channel, message)
  end
end
