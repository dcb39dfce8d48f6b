#!lua
-- policy: creates a pool's limits and changes their caps and rules.
--
-- Guarantee: idempotent by revision; an older revision changes nothing and is
-- reported. A limit that was opened once and whose hash is gone stays missing
-- until it is rebuilt. Change and entry are one step, so after the answer
-- nobody is admitted under the old policy.
--
-- KEYS[1] revoked:{p}   KEYS[2] epoch:{p}   KEYS[3] opened:{p}
-- KEYS[4] outbox:{p}    KEYS[5..] limits
-- ARGV[1] revision      ARGV[2] subject line of the entry (README.md)
-- ARGV[3] detail of the entry, JSON
-- then per limit: field in opened:{p}, cap, epsilon, on_overrun, late window ms,
-- state, opens, closes
--
-- Outcomes: unavailable | behind, revision | same, revision | applied, revision
local revoked_key, epoch_key, opened_key, outbox_key = unpack(KEYS, 1, 4)
local limit_keys = {unpack(KEYS, 5)}
local revision, subject, detail = ARGV[1], ARGV[2], ARGV[3]
local limits = {}
for i = 1, #limit_keys do
  limits[i] = {unpack(ARGV, 4 + (i - 1) * 8, 3 + i * 8)}
end

-- now: Redis's clock, read once per script. Returns milliseconds as a number,
-- and seconds and microseconds as Redis's own digits, joined by a space. A
-- time in milliseconds has 13 digits, which ".." still prints exactly.
local function now()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1, t[1] .. ' ' .. t[2]
end

if redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local plans, changes = {}, 0
for i, key in ipairs(limit_keys) do
  local old = redis.call('HMGET', key, 'cap', 'rev')
  local cap = limits[i][2]
  if not string.find(cap, '^%d+$') or #cap > 16 or tonumber(cap) > 9007199254740991 then
    return {'invalid'}
  elseif old[2] and tonumber(old[2]) > tonumber(revision) then
    return {'behind', old[2]}
  elseif not old[1] and redis.call('HEXISTS', opened_key, limits[i][1]) == 0 then
    plans[i], changes = 'create', changes + 1
  elseif old[1] and old[2] ~= revision then
    plans[i], changes = old[1], changes + 1
  else
    plans[i] = 'keep'
  end
end
if changes == 0 then
  return {'same', revision}
end
local _, now_text = now()

-- writes
local moves = {}
for i, key in ipairs(limit_keys) do
  local _, cap, epsilon, on_overrun, late_window, state, opens, closes = unpack(limits[i])
  moves[i] = 'c+0'
  if plans[i] ~= 'keep' then
    if plans[i] == 'create' then
      redis.call('HSET', key, 'adj', '0', 'held', '0', 'spent', '0', 'withheld', '0')
      moves[i] = 'c+' .. cap
    else
      moves[i] = 'c+' .. cap .. '-' .. plans[i]
    end
    redis.call('HSET', key, 'cap', cap, 'epsilon', epsilon, 'on_overrun', on_overrun, 'late_window', late_window,
      'state', state, 'opens', opens, 'closes', closes, 'rev', revision)
    redis.call('HSET', opened_key, limits[i][1], revision)
  end
end
redis.call('XADD', outbox_key, '*', 'e',
  '1 policy_changed ' .. now_text .. ' -\n' .. table.concat(moves, ' ') .. '\n' .. detail .. '\n' .. subject)
return {'applied', revision}
