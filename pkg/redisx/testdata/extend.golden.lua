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
-- parse_record: the execution record as a table, or nil where the text is not
-- one. The format is described in README.md; limits, slots and binding never
-- change after the first write.
local function parse_record(text)
  local state, sec, usec, deadline, till, fingerprint, org, agent, settler, ancestors, amounts, limits, slots, extra,
    resolution, attempts = string.match(text, '^1 ([%l_]+) (%d+) (%d+) (%d+) (%d+)\n(%x*)\n([^\t\n]*)\t([^\t\n]*)\t([^\t\n]*)\t' ..
    '([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  if not state then
    return nil
  end
  return {
    state = state, sec = sec, usec = usec, deadline = deadline, till = till, fingerprint = fingerprint,
    org = org, agent = agent, settler = settler, ancestors = ancestors, amounts = amounts,
    limits = limits, slots = slots, extra = extra, resolution = resolution, attempts = attempts,
  }
end
-- format_record: the text of a record table; the inverse of parse_record.
local function format_record(r)
  return table.concat({
    '1 ' .. r.state .. ' ' .. r.sec .. ' ' .. r.usec .. ' ' .. r.deadline .. ' ' .. r.till, r.fingerprint,
    r.org .. '\t' .. r.agent .. '\t' .. r.settler .. '\t' .. r.ancestors, r.amounts, r.limits, r.slots, r.extra,
    r.resolution, r.attempts,
  }, '\n')
end
-- parse_amounts: "unit=n unit=n" as a map of unit to the digits as given, and
-- the units in the order of the text.
local function parse_amounts(text)
  local by_unit, units = {}, {}
  for unit, n in string.gmatch(text, '([^ =]+)=(%d+)') do
    by_unit[unit] = n
    units[#units + 1] = unit
  end
  return by_unit, units
end
-- may_resolve: whether a caller may settle, release or extend a record: the
-- holder, one of its immutable ancestors, the settler it named, an operator.
local function may_resolve(r, org, caller, operator)
  if r.org ~= org then
    return false
  end
  if operator == '1' or caller == r.agent or caller == r.settler then
    return true
  end
  return string.find(',' .. r.ancestors .. ',', ',' .. caller .. ',', 1, true) ~= nil
end
-- find_record: the record a caller may resolve, or an outcome to return. The
-- caller's guess of the holder, limits and slots, from which its keys were
-- built, is checked here; the right ones are in the record.
local function find_record(record_key, epoch_key, who, guess)
  local text = redis.call('GET', record_key)
  if not text then
    return nil, redis.call('EXISTS', epoch_key) == 0 and {'unavailable', 'emptied'} or {'absent'}
  end
  local r = parse_record(text)
  if not r then
    return nil, {'corrupt'}
  elseif r.state == 'charged' or not may_resolve(r, who.org, who.caller, who.operator) then
    return nil, {'absent'}
  elseif r.state == 'tombstone' then
    return r
  elseif string.find(r.resolution .. '\n' .. r.attempts, who.key_id, 1, true) then
    return nil, {'known', text}
  elseif r.state ~= 'held' and r.state ~= 'expired' and r.state ~= 'lapsed' then
    return nil, {'known', text}
  elseif r.agent ~= guess.holder or r.limits ~= guess.limits or r.slots ~= guess.slots then
    return nil, {'keys', text}
  end
  return r
end
-- read_limits: the figures of a reservation's limits, missing where the hash
-- is gone. Returns nil where one is gone and so is the epoch: then Redis was
-- emptied, and nothing may be resolved until it is rebuilt.
local function read_limits(limit_keys, epoch_key)
  local rows, missing = {}, false
  for i, key in ipairs(limit_keys) do
    local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld', 'epsilon', 'on_overrun', 'late_window')
    row.missing = not row[1]
    missing = missing or row.missing
    rows[i] = row
  end
  if missing and redis.call('EXISTS', epoch_key) == 0 then
    return nil
  end
  return rows, missing
end
-- any_revoked: whether the holder of a record, the caller (a named settler may
-- be of another branch), or an ancestor of either has ended.
local function any_revoked(revoked_key, r, callers, now_ms)
  local agents = {r.agent, unpack(callers)}
  for agent in string.gmatch(r.ancestors, '[^,]+') do
    agents[#agents + 1] = agent
  end
  for _, at in ipairs(redis.call('HMGET', revoked_key, unpack(agents))) do
    if at and at + 0 <= now_ms then
      return true
    end
  end
  return false
end
-- added_amounts: what an extend adds per unit, with field total: the amounts
-- line of the record afterwards. Returns an unknown unit as second and true as
-- third value where an amount is not one or the sum would pass 2^53-1. Sums
-- below 2^53 are exact in a double, and %.0f prints them exactly.
local function added_amounts(r, add)
  local extra = {total = r.amounts}
  if add == '-' then
    return extra
  end
  local reserved, units = parse_amounts(r.amounts)
  local given = parse_amounts(add)
  for unit, n in pairs(given) do
    if not reserved[unit] then
      return nil, unit
    elseif not is_amount(n) or tonumber(n) + tonumber(reserved[unit]) > 9007199254740991 then
      return nil, nil, true
    end
    extra[unit] = n
  end
  local out = {}
  for i, unit in ipairs(units) do
    local n = extra[unit] and string.format('%.0f', tonumber(extra[unit]) + tonumber(reserved[unit])) or reserved[unit]
    out[i] = unit .. '=' .. n
  end
  extra.total = table.concat(out, ' ')
  return extra
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
