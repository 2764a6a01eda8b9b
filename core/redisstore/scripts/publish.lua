-- What scripts that wake somebody begin with.
--
-- KEYS     none
--
-- how is the command to publish with: publish, spublish or both. A server that refuses
-- SPUBLISH, as it is too old or does not permit it, gets PUBLISH.
--
-- publish returns how many connections heard it, or nil if that is not known: with both,
-- and where a command was refused. PUBLISH in a cluster counts those of one node.

local function publish(channel, message, how)
  local sharded = how ~= 'publish' and redis.pcall('spublish', channel, message)
  if how == 'spublish' and type(sharded) == 'number' then
    return sharded
  end
  local heard = redis.call('publish', channel, message)
  return how == 'publish' and heard or nil
end

