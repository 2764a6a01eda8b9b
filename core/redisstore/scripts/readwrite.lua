-- What the scripts of read/write locks have in common that look at other
-- readers. It is put in front of each, behind publish.lua.
--
-- KEYS[1]  the lock, a hash: "mode" is read or write, {owner} counts read
--          holds, {owner}:write those of the writer
--
-- An owner that reads has a sentinel besides, a key that expires with the
-- longest of its read holds: prefix, owner, 1. Redisson has one for each hold,
-- numbered from 1. Those of other owners cannot be declared: who they are is in
-- the hash. They are in the slot of the lock, and looked at together with it.
-- While that slot migrates such a look fails if one of the two is not there, and
-- the owner counts as alive.

local maxLook = 100 -- readers looked at in a call
local maxCount = 1000 -- sentinels of one reader

-- what is left in ms of the longest read hold of an owner: 0 if it has none,
-- -1 if that cannot be known.
local function left(prefix, owner, count)
  local longest = 0
  for i = 1, math.min(count, maxCount) do
    local sentinel = prefix .. ':' .. owner .. ':rwlock_timeout:' .. i
    local seen = redis.pcall('exists', KEYS[1], sentinel)
    if type(seen) ~= 'number' then
      return -1
    end
    if seen > 1 then
      local pttl = redis.call('pttl', sentinel)
      if pttl == -1 then
        return -1
      end
      longest = math.max(longest, pttl, 1)
    end
  end
  if longest == 0 and count > maxCount then
    return -1
  end
  return longest
end

-- some readers of most fields, their counts, and whether these are all there are.
local function readers(most)
  local found = redis.call('hrandfield', KEYS[1], most, 'withvalues')
  local some = {}
  for i = 1, #found, 2 do
    local count = tonumber(found[i + 1])
    if count and not string.find(found[i], ':write$') then
      some[#some + 1] = {found[i], count}
    end
  end
  return some, #found / 2 < most
end
