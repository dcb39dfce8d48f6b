#!lua
-- extend: moves a reservation's deadline out, and takes more amounts from its own limits where asked.
--
-- Guarantee: the deadline never comes earlier and never passes seven days after the reserve; added amounts
-- go through the checks of reserve. An attempt with amounts is remembered with its answer, denied or not.
--
-- KEYS[1] reservation:{p} seg(execution)   KEYS[2] live:{p} seg(org) seg(holder)
-- KEYS[3] revoked:{p}                      KEYS[4] epoch:{p}
-- KEYS[5] opened:{p}                       KEYS[6] outbox:{p}
-- KEYS[7..] limits, then slots
-- ARGV[1] execution  ARGV[2] org  ARGV[3] caller  ARGV[4] 1 for an operator
-- ARGV[5] key id     ARGV[6] fingerprint   ARGV[7] guessed holder
-- ARGV[8] guessed limits line   ARGV[9] guessed slots line
-- ARGV[10] ttl, ms; 0 for none  ARGV[11] add "unit=n unit=n", or '-'
-- ARGV[12] latest time of execution, ms; 0 for none
-- ARGV[13] request, for the entry   ARGV[14] number of limits; then per limit its unit; then the caller's ancestors
--
-- Outcomes, first that holds: unavailable | absent | corrupt | known, record |
-- keys, record | expired | unit_unknown, unit | invalid | attempts | stale |
-- denied, record, reason, index of the limit, '', figures | allowed, record, ms to the deadline, figures before
local record_key, live_key, revoked_key, epoch_key, opened_key, outbox_key = unpack(KEYS, 1, 6)
local execution, org, caller, operator, key_id, fingerprint = unpack(ARGV, 1, 6)
local guess = {holder = ARGV[7], limits = ARGV[8], slots = ARGV[9]}
local ttl_ms, add, not_after, request, limit_count = tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12]), ARGV[13], tonumber(ARGV[14])
local limit_units, callers = {unpack(ARGV, 15, 14 + limit_count)}, {caller, unpack(ARGV, 15 + limit_count)}
local limit_keys, slot_keys = {unpack(KEYS, 7, 6 + limit_count)}, {unpack(KEYS, 7 + limit_count)}

--include now
--include is_amount
--include judge_limit
--include judge_missing
--include judge_path
--include figures
--include figures_of
--include parse_record
--include format_record
--include parse_amounts
--include may_resolve
--include find_record
--include read_limits
--include any_revoked
--include added_amounts
--include move

if redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'unavailable', 'fenced'}
end
local r, outcome = find_record(record_key, epoch_key,
  {org = org, caller = caller, operator = operator, key_id = key_id}, guess)
local now_ms, now_text = now()
if not r or r.state == 'tombstone' then
  return outcome or {'known', format_record(r)}
elseif r.state ~= 'held' or tonumber(r.deadline) <= now_ms then
  return {'expired'}
end
local extra, stranger, faulty = added_amounts(r, add)
if stranger or faulty then
  return stranger and {'unit_unknown', stranger} or {'invalid'}
end
local adds = add ~= '-'
local _, attempt_count = string.gsub(r.attempts, '\n', '')
if adds and attempt_count >= 16 then
  return {'attempts'}
end
local amounts, any_rev, rows, reason, index, again = {}, {}
for i, unit in ipairs(limit_units) do
  amounts[i], any_rev[i] = extra[unit] or '0', ''
end
if adds then
  reason, index, rows, again = judge_path(limit_keys, amounts, any_rev, opened_key, epoch_key, now_ms)
  if again then
    return {reason}
  elseif any_revoked(revoked_key, r, callers, now_ms) then
    reason, index = 'revoked', 0
  elseif not reason and redis.call('XLEN', outbox_key) > 500000 then
    return {'unavailable', 'outbox'}
  end
else
  rows = read_limits(limit_keys, epoch_key)
end
if not rows then
  return {'unavailable', 'emptied'}
end
if not_after > 0 and now_ms > not_after then
  reason, index = 'deadline_passed', 0
end
local refusal = reason and {'denied', reason, tostring(index), '', figures(rows[index])}
if reason == 'pool_missing' or reason and not adds then
  table.insert(refusal, 2, format_record(r))
  return refusal
end
local latest = math.min(now_ms + ttl_ms, r.sec * 1000 + 604800000)
local deadline = ttl_ms > 0 and latest > tonumber(r.deadline) and latest .. '' or r.deadline

-- writes
if reason then
  r.attempts = r.attempts .. key_id .. '\t' .. fingerprint .. '\textend\t' .. table.concat(refusal, '\t') .. '\n'
  local text = format_record(r)
  redis.call('SET', record_key, text, 'KEEPTTL')
  table.insert(refusal, 2, text)
  return refusal
end
local moves = {}
if adds then
  for i, key in ipairs(limit_keys) do
    moves[i] = move(key, false, 'h', 'held', '+', amounts[i])
  end
  r.attempts = r.attempts .. table.concat({key_id, fingerprint, 'extend', 'allowed', extra.total, deadline, r.amounts}, '\t') .. '\n'
  r.amounts = extra.total
end
r.deadline = deadline
local text = format_record(r)
redis.call('SET', record_key, text)
redis.call('ZADD', live_key, deadline, execution)
for _, slot in ipairs(slot_keys) do
  redis.call('ZADD', slot, 'XX', deadline, execution)
end
redis.call('XADD', outbox_key, '*', 'e',
  '1 extended ' .. now_text .. ' ' .. execution .. '\n' .. table.concat(moves, ' ') .. '\n' .. request .. '\n' .. text)
return {'allowed', text, (deadline - now_ms) .. '', figures_of(rows)}
