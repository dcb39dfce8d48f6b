#!lua flags=allow-oom
-- revoke: ends an agent and with it its whole subtree, from the next decision
-- on: every script looks at the agent and its immutable ancestors here.
--
-- Guarantee: one field is all it takes, however large the subtree. The agent
-- gives its place among its parent's children and its tree back; its
-- descendants' places are cleared afterwards, see README.md.
--
-- KEYS[1] revoked:{p}   KEYS[2] epoch:{p}   KEYS[3] outbox:{p}
-- KEYS[4] tree:{p} seg(org) seg(root)   KEYS[5] children:{p} seg(org) seg(parent)
-- ARGV[1] agent   ARGV[2] subject line of the entry (README.md)   ARGV[3] detail, JSON
--
-- Outcomes: unavailable | same | revoked
local revoked_key, epoch_key, outbox_key, tree_key, children_key = unpack(KEYS, 1, 5)
local agent, subject, detail = ARGV[1], ARGV[2], ARGV[3]

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

local found = redis.call('HMGET', revoked_key, 'fence', agent)
if found[1] then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local now_ms, now_text = now()
if ended(found, now_ms) then
  return {'same'}
end

-- writes
redis.call('HSET', revoked_key, agent, now_ms .. '')
redis.call('ZREM', tree_key, agent)
redis.call('ZREM', children_key, agent)
redis.call('XADD', outbox_key, '*', 'e', '1 agent_revoked ' .. now_text .. ' -\n\n' .. detail .. '\n' .. subject)
return {'revoked'}
