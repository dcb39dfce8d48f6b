#!lua
-- charge: spends amounts in one step, without a reservation.
--
-- Guarantee: the checks of reserve, and the same record and entry. A charge
-- that was incurred elsewhere skips every denial, may pass a cap and is always
-- booked; a limit whose hash is gone gets a move marked missing.
--
-- KEYS[1] reservation:{p} seg(execution)   KEYS[2] revoked:{p}
-- KEYS[3] epoch:{p}                        KEYS[4] opened:{p}
-- KEYS[5] outbox:{p}                       KEYS[6..] limits
-- ARGV[1] execution      ARGV[2] record after its head line (README.md)
-- ARGV[3] latest time of execution, ms; 0 for none
-- ARGV[4] 1 where it was incurred   ARGV[5] number of limits
-- ARGV[6] number of agents to look up: the caller and its ancestors; then these
-- then per limit: amount, revision
--
-- Outcomes, first that holds: unavailable | known, record | invalid | stale |
-- denied, reason, index of the limit, '', figures | charged, figures of all limits as they were before
local record_key, revoked_key, epoch_key, opened_key, outbox_key = unpack(KEYS, 1, 5)
local execution, body, not_after, incurred = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local limit_count, agent_count = tonumber(ARGV[5]), tonumber(ARGV[6])
local agents, limit_keys = {unpack(ARGV, 7, 6 + agent_count)}, {unpack(KEYS, 6, 5 + limit_count)}
local amounts, revs = {}, {}
for i = 1, limit_count do
  amounts[i], revs[i] = unpack(ARGV, 5 + agent_count + 2 * i, 6 + agent_count + 2 * i)
end

-- now: Redis's clock, read once per script. Returns milliseconds as a number,
-- and seconds and microseconds as Redis's own digits, joined by a space. A
-- time in milliseconds has 13 digits, which ".." still prints exactly.
local function now()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1, t[1] .. ' ' .. t[2]
end
-- is_amount: whether a string is an integer from 1 to 2^53-1 in plain digits.
-- Lua compares NaN to everything as false, so an unchecked "nan" would walk
-- through a cap.
local function is_amount(s)
  return #s <= 16 and string.find(s, '^[1-9]%d*$') ~= nil and tonumber(s) <= 9007199254740991
end
-- judge_limit: why one limit refuses an amount, or nil. Returns a reason's
-- place in the order of precedence and its name; place 0 means that the caller
-- must ask again. The figures are those of one HMGET: cap, adj, held, spent,
-- withheld, rev, state; opens and closes too where a limit has a period.
local function judge_limit(row, amount, rev, ceiling, now_ms)
  local limit, spent = row[1] + row[2], row[4] + 0
  local used = row[3] + spent + row[5] + amount
  if rev ~= '' and rev ~= row[6] then
    return 0, 'stale'
  elseif row[7] ~= 'open' then
    return row[7] == 'frozen' and 1 or 3, row[7] == 'frozen' and 'frozen' or 'period_closed'
  elseif row[8] and (row[8] ~= '0' and row[8] + 0 > now_ms or row[9] ~= '0' and row[9] + 0 <= now_ms) then
    return 0, 'stale'
  elseif not (spent <= limit) then
    return 4, 'debt'
  elseif amount > 0 and (not (used <= limit) or ceiling ~= '' and not (used <= ceiling + 0)) then
    return 6, 'budget_exceeded'
  end
end
-- judge_missing: what a limit without a hash means: Redis was emptied, the
-- limit vanished, or it is not made yet and the caller must ask again.
local function judge_missing(limit_key, opened_key, epoch_key)
  if redis.call('EXISTS', epoch_key) == 0 then
    return 0, 'unavailable'
  elseif redis.call('HEXISTS', opened_key, string.match(limit_key, '}(.*)$')) == 0 then
    return 0, 'stale'
  end
  return 2, 'pool_missing'
end
-- judge_path: why a path of limits refuses amounts, first by precedence, then
-- by the order of the path. Returns reason, index of the limit, the figures
-- read, and true where the caller must ask again instead. Needs judge_limit
-- and judge_missing.
local function judge_path(limit_keys, amounts, revs, opened_key, epoch_key, now_ms)
  local rank, reason, index, rows = 99, nil, 0, {}
  for i, key in ipairs(limit_keys) do
    local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld', 'rev', 'state', 'opens', 'closes')
    local place, why
    if row[1] then
      place, why = judge_limit(row, amounts[i] + 0, revs[i], '', now_ms)
    else
      place, why = judge_missing(key, opened_key, epoch_key)
    end
    if place == 0 then
      return why, i, rows, true
    elseif place and place < rank then
      rank, reason, index = place, why, i
    end
    rows[i] = row
  end
  return reason, index, rows, false
end
-- figures: the counters of one HMGET as one word group of a reply.
local function figures(row)
  if not row or not row[1] then
    return '- - - - -'
  end
  return row[1] .. ' ' .. row[2] .. ' ' .. row[3] .. ' ' .. row[4] .. ' ' .. row[5]
end
-- figures_of: the counters of several limits as one text. Needs figures.
local function figures_of(rows)
  local out = {}
  for i, row in ipairs(rows) do
    out[i] = figures(row)
  end
  return table.concat(out, ' ')
end
-- move: changes one counter of a limit and returns the term for the entry, so
-- that what is booked and what is written are one thing. Redis does the
-- arithmetic on the caller's own digits; it takes neither "+5" nor "-0". A
-- missing limit is never created; its term is still written.
local function move(limit_key, missing, letter, field, sign, digits)
  if not missing and digits ~= '0' then
    redis.call('HINCRBY', limit_key, field, sign == '-' and '-' .. digits or digits)
  end
  return letter .. sign .. digits
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

local gone = redis.call('HMGET', revoked_key, 'fence', unpack(agents))
if gone[1] then
  return {'unavailable', 'fenced'}
end
local known = redis.call('GET', record_key)
if known then
  return {'known', known}
end
for _, amount in ipairs(amounts) do
  if not is_amount(amount) and amount ~= '0' then
    return {'invalid'}
  end
end
local now_ms, now_text = now()
local reason, index, rows, again = judge_path(limit_keys, amounts, revs, opened_key, epoch_key, now_ms)
if again then
  return {reason}
end
if ended(gone, now_ms) then
  reason, index = 'revoked', 0
end
if not_after > 0 and now_ms > not_after then
  reason, index = 'deadline_passed', 0
end
if incurred then
  reason = nil
elseif not reason and redis.call('XLEN', outbox_key) > 500000 then
  return {'unavailable', 'outbox'}
end
local reply = reason and {'denied', reason, tostring(index), '', figures(rows[index])} or {'charged', figures_of(rows)}
if reason == 'pool_missing' then
  return reply
end

-- writes
if reason then
  redis.call('SET', record_key, '1 denied ' .. now_text .. ' ' .. now_ms .. ' ' .. now_ms .. '\n' .. body ..
    table.concat(reply, '\t', 2) .. '\n', 'PX', 3600000)
  return reply
end
local moves, missing = {}, '0'
for i, key in ipairs(limit_keys) do
  local lost = not rows[i][1]
  moves[i] = (lost and '!' or '') .. move(key, lost, 's', 'spent', '+', amounts[i])
  missing = lost and '1' or missing
end
local record = '1 charged ' .. now_text .. ' ' .. now_ms .. ' ' .. now_ms .. '\n' .. body ..
  'charge\t' .. (incurred and '1' or '0') .. '\t' .. missing .. '\n'
redis.call('SET', record_key, record, 'PX', 86400000)
redis.call('XADD', outbox_key, '*', 'e',
  '1 charged ' .. now_text .. ' ' .. execution .. '\n' .. table.concat(moves, ' ') .. '\n\n' .. record)
return reply
