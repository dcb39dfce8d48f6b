#!lua
-- reserve: takes amounts from every limit on a path, and a slot where the
-- target has one, all or nothing.
--
-- Guarantee: a held amount never passes a cap; one record is reservation and
-- idempotency record at once, so a repeat finds the first answer; the entry
-- that explains the change is in the outbox before the caller hears of it.
--
-- KEYS[1] reservation:{p} seg(execution)   KEYS[2] expiring:{p}
-- KEYS[3] live:{p} seg(org) seg(agent)     KEYS[4] revoked:{p}
-- KEYS[5] epoch:{p}                        KEYS[6] opened:{p}
-- KEYS[7] outbox:{p}                       KEYS[8..] limits, then slots
-- ARGV[1] execution      ARGV[2] record after its head line (README.md)
-- ARGV[3] ttl, ms        ARGV[4] latest time of execution, ms; 0 for none
-- ARGV[5] 1 for a dry run
-- ARGV[6] number of limits   ARGV[7] number of slots
-- ARGV[8] 1 where a limit has a period, whose bounds are read then
-- ARGV[9] number of agents to look up: the caller and its ancestors; then these
-- then per limit: amount, revision, ceiling or ''; then per slot: its maximum
--
-- Outcomes, first that holds: unavailable (fenced) | known, record | invalid |
-- stale | unavailable (emptied) | denied, reason, index of limit or slot,
-- detail, figures | unavailable (outbox full) | allowed, deadline ms, figures
-- of all limits as they were before. A denial is kept for an hour, pool_missing
-- is not.
local call, find = redis.call, string.find
local record_key, expiring_key, live_key, revoked_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch_key, opened_key, outbox_key = KEYS[5], KEYS[6], KEYS[7]
local execution, body, ttl_ms, not_after, dry_run = ARGV[1], ARGV[2], ARGV[3], ARGV[4] + 0, ARGV[5] == '1'
local limit_count, slot_count, timed, agent_count = ARGV[6] + 0, ARGV[7] + 0, ARGV[8] == '1', ARGV[9] + 0
local keys, args = KEYS, ARGV
local limits_at, slots_at = 9 + agent_count, 9 + agent_count + 3 * limit_count
local slot_keys = slot_count > 0 and {unpack(keys, 8 + limit_count)}

--include now
--include judge_limit
--include figures

local gone = call('HMGET', revoked_key, 'fence', unpack(args, 10, limits_at))
if gone[1] then
  return {'unavailable', 'fenced'}
end
local known = call('GET', record_key)
if known then
  return {'known', known}
end
local now_ms, now_text = now()
local rank, reason, index, detail, refusing = 99, nil, 0, '', nil
local moves, shown = '', ''
for i = 1, limit_count do
  local at = limits_at + 3 * (i - 1)
  local amount = args[at + 1]
  -- Checked in digits: Lua would let "nan" through every comparison below.
  if not find(amount, '^[1-9]%d*$') or #amount > 16 or amount + 0 > 9007199254740991 then
    return {'invalid'}
  end
  local row = timed and call('HMGET', keys[7 + i], 'cap', 'adj', 'held', 'spent', 'withheld', 'rev', 'state', 'opens', 'closes')
    or call('HMGET', keys[7 + i], 'cap', 'adj', 'held', 'spent', 'withheld', 'rev', 'state')
  local place, why
  if row[1] then
    place, why = judge_limit(row, amount + 0, args[at + 2], args[at + 3], now_ms)
  else
--include judge_missing
    place, why = judge_missing(keys[7 + i], opened_key, epoch_key)
  end
  if place == 0 then
    return {why}
  elseif place and place < rank then
    rank, reason, index, refusing = place, why, i, row
  end
  moves = i == 1 and 'h+' .. amount or moves .. ' h+' .. amount
  shown = i == 1 and figures(row) or shown .. ' ' .. figures(row)
end
for i = 2, agent_count + 1 do
  if gone[i] and gone[i] + 0 <= now_ms then
    rank, reason, index, refusing = 0, 'revoked', 0, nil
  end
end
if not_after > 0 and now_ms > not_after then
  rank, reason, index, refusing = 0, 'deadline_passed', 0, nil
end
if slot_keys and rank > 5 then
--include judge_slots
  local full, holders = judge_slots(slot_keys, {unpack(args, slots_at + 1)}, now_ms)
  if full then
    reason, index, detail, refusing = 'concurrency_exceeded', full, holders, nil
  end
end
if not reason and call('XLEN', outbox_key) > 500000 then
  return {'unavailable', 'outbox'}
end
local deadline = (now_ms + ttl_ms) .. ''
local reply = reason and {'denied', reason, tostring(index), detail, figures(refusing)} or {'allowed', deadline, shown}
if dry_run or reason == 'pool_missing' then
  return reply
end

-- writes
if reason then
  call('SET', record_key, '1 denied ' .. now_text .. ' ' .. now_ms .. ' ' .. now_ms .. '\n' .. body ..
    table.concat(reply, '\t', 2) .. '\n', 'PX', 3600000)
  return reply
end
for i = 1, limit_count do
  call('HINCRBY', keys[7 + i], 'held', args[limits_at + 3 * i - 2])
end
for _, slot_key in ipairs(slot_keys or {}) do
  call('ZREMRANGEBYSCORE', slot_key, '-inf', now_ms)
  call('ZADD', slot_key, deadline, execution)
end
local record = '1 held ' .. now_text .. ' ' .. deadline .. ' 0\n' .. body .. '\n'
call('SET', record_key, record)
call('ZADD', live_key, deadline, execution)
call('ZADD', expiring_key, 'LT', deadline, live_key)
call('XADD', outbox_key, '*', 'e', '1 reserved ' .. now_text .. ' ' .. execution .. '\n' .. moves .. '\n\n' .. record)
return reply
