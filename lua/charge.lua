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

--include now
--include is_amount
--include judge_limit
--include judge_missing
--include judge_path
--include figures
--include figures_of
--include move
--include ended

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
