#!lua flags=allow-oom
-- revoke: ends an agent and with it its whole subtree, from the next decision
-- on: every script looks at the agent and its immutable ancestors here.
--
-- KEYS[1] revoked:{p}   KEYS[2] epoch:{p}   KEYS[3] outbox:{p}
-- ARGV[1] agent   ARGV[2] subject line of the entry (README.md)   ARGV[3] detail, JSON
--
-- Outcomes: unavailable | same | revoked
local revoked_key, epoch_key, outbox_key = unpack(KEYS, 1, 3)
local agent, subject, detail = ARGV[1], ARGV[2], ARGV[3]

-- now: Redis's clock, read once per script. Returns milliseconds as a number,
-- and seconds and microseconds as Redis's own digits, joined by a space. A
-- time in milliseconds has 13 digits, which ".." still prints exactly.
local function now()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1, t[1] .. ' ' .. t[2]
end

local found = redis.call('HMGET', revoked_key, 'fence', agent)
if found[1] then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
elseif found[2] then
  return {'same'}
end
local now_ms, now_text = now()

-- writes
redis.call('HSET', revoked_key, agent, now_ms .. '')
redis.call('XADD', outbox_key, '*', 'e', '1 agent_revoked ' .. now_text .. ' -\n\n' .. detail .. '\n' .. subject)
return {'revoked'}
