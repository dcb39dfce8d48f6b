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

-- now: Redis's clock, read once per script. Returns milliseconds as a number,
-- and seconds and microseconds as Redis's own digits, joined by a space. A
-- time in milliseconds has 13 digits, which ".." still prints exactly.
local function now()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1, t[1] .. ' ' .. t[2]
end
-- ended: whether one of the agents of an HMGET of revoked:{p}, after the fence,
-- has ended: the field is the time it ends at, which for an agent with a time
-- to live is written when it is registered.
local function ended(gone, now_ms)
  for i = 2, #gone do
    if gone[i] and gone[i] + 0 <= now_ms then
      return true
    end
  end
  return false
end

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
