#!lua
-- register: writes down that an agent exists, and makes the pool it was
-- granted, unless an ancestor is revoked or a limit on agents is reached.
--
-- Guarantee: living children and agents of a tree are counted and added in one
-- step; a repeat finds the first agent; a grant never exceeds what remains on
-- its parent's path, and is a cap, not money: nothing is moved.
--
-- KEYS[1] revoked:{p}   KEYS[2] epoch:{p}   KEYS[3] opened:{p}   KEYS[4] outbox:{p}
-- KEYS[5] registration:{p} seg(execution)   KEYS[6] tree:{p} seg(org) seg(root)
-- KEYS[7] children:{p} seg(org) seg(parent), the tree's again for a root
-- KEYS[8..] limits to make, then limits of the parent's path
-- ARGV[1] agent          ARGV[2] registration to keep: fingerprint, line, rest
-- ARGV[3] subject line of the entry (README.md)   ARGV[4] its detail, JSON
-- ARGV[5] end of the agent, ms, or +inf   ARGV[6] living children at most
-- ARGV[7] living agents of the tree at most   ARGV[8] execution, or - for none
-- ARGV[9] number of ancestors   ARGV[10] of limits to make   ARGV[11] of limits on the path
-- ARGV[12] subject line of the pool's entry   ARGV[13] its detail; then the ancestors,
-- per limit to make: field in opened:{p}, cap, epsilon, on_overrun, late window ms; per limit on the path: cap granted in its unit or '', revision
--
-- Outcomes, first that holds: unavailable | known, registration | revoked | invalid | stale | missing |
-- grant, index of the limit on the path | children | tree | registered
local revoked_key, epoch_key, opened_key, outbox_key, registration_key, tree_key, children_key = unpack(KEYS, 1, 7)
local agent, registration, subject, detail, ends, children_max, tree_max, execution = unpack(ARGV, 1, 8)
local ancestor_count, made_count, path_count = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local pool_subject, pool_detail = ARGV[12], ARGV[13]
local ancestors, made_at = {unpack(ARGV, 14, 13 + ancestor_count)}, 13 + ancestor_count
local path_at = made_at + 5 * made_count
local made_keys, path_keys = {unpack(KEYS, 8, 7 + made_count)}, {unpack(KEYS, 8 + made_count)}
local made, path = {}, {}
for i = 1, made_count do
  made[i] = {unpack(ARGV, made_at + 5 * i - 4, made_at + 5 * i)}
end
for i = 1, path_count do
  path[i] = {unpack(ARGV, path_at + 2 * i - 1, path_at + 2 * i)}
end

--include now
--include judge_missing
--include ended
--include is_amount

local gone = redis.call('HMGET', revoked_key, 'fence', unpack(ancestors))
if gone[1] then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local known = redis.call('GET', registration_key)
if known then
  return {'known', known}
end
local now_ms, now_text = now()
if ended(gone, now_ms) then
  return {'revoked'}
end
for _, limit in ipairs(made) do
  if not is_amount(limit[2]) then
    return {'invalid'}
  end
end
local missing, above = false, nil
for i, key in ipairs(path_keys) do
  local granted, rev = unpack(path[i])
  local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld', 'rev')
  if not row[1] then
    local _, why = judge_missing(key, opened_key, epoch_key)
    if why == 'stale' then
      return {'stale'}
    end
    missing = true
  elseif row[6] ~= rev then
    return {'stale'}
  elseif granted ~= '' and not (row[3] + row[4] + row[5] + granted <= row[1] + row[2]) then
    above = above or i
  end
end
if missing then
  return {'missing'}
elseif above then
  return {'grant', tostring(above)}
elseif ancestor_count > 0 and redis.call('ZCOUNT', children_key, '(' .. now_ms, '+inf') >= tonumber(children_max) then
  return {'children'}
elseif redis.call('ZCOUNT', tree_key, '(' .. now_ms, '+inf') >= tonumber(tree_max) then
  return {'tree'}
end

-- writes
local moves = {}
for i, key in ipairs(made_keys) do
  local field, cap, epsilon, on_overrun, late_window = unpack(made[i])
  redis.call('HSET', key, 'cap', cap, 'adj', '0', 'held', '0', 'spent', '0', 'withheld', '0', 'epsilon', epsilon,
    'on_overrun', on_overrun, 'late_window', late_window, 'state', 'open', 'opens', '0', 'closes', '0', 'rev', '1')
  redis.call('HSET', opened_key, field, '1')
  moves[i] = 'c+' .. cap
end
if made_count > 0 then
  redis.call('XADD', outbox_key, '*', 'e', '1 policy_changed ' .. now_text .. ' -\n' .. table.concat(moves, ' ') ..
    '\n' .. pool_detail .. '\n' .. pool_subject)
end
redis.call('ZREMRANGEBYSCORE', tree_key, '-inf', now_ms)
redis.call('ZADD', tree_key, ends, agent)
if ancestor_count > 0 then
  redis.call('ZREMRANGEBYSCORE', children_key, '-inf', now_ms)
  redis.call('ZADD', children_key, ends, agent)
end
if ends ~= '+inf' then
  redis.call('HSET', revoked_key, agent, ends)
end
if execution ~= '-' then
  redis.call('SET', registration_key, registration, 'PX', 86400000)
end
redis.call('XADD', outbox_key, '*', 'e', '1 agent_registered ' .. now_text .. ' ' .. execution .. '\n\n' .. detail .. '\n' .. subject)
return {'registered'}
