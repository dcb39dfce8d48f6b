#!lua flags=no-writes
-- standing: whether an agent or one of its ancestors has ended, and how many
-- live right below it and in its tree, read in one step.
--
-- KEYS[1] revoked:{p}   KEYS[2] epoch:{p}
-- KEYS[3] children:{p} seg(org) seg(agent)   KEYS[4] tree:{p} seg(org) seg(root)
-- ARGV the agent and its ancestors
--
-- Outcomes: unavailable | standing, 1 where it has ended, children, agents of the tree
local revoked_key, epoch_key, children_key, tree_key = unpack(KEYS, 1, 4)

--include now
--include ended

local gone = redis.call('HMGET', revoked_key, 'fence', unpack(ARGV))
if gone[1] then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local now_ms = now()
local alive = '(' .. now_ms
return {'standing', ended(gone, now_ms) and '1' or '0', tostring(redis.call('ZCOUNT', children_key, alive, '+inf')),
  tostring(redis.call('ZCOUNT', tree_key, alive, '+inf'))}
