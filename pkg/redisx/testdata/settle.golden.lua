#!lua flags=allow-oom
-- settle: books what a reservation really cost and gives the rest back.
--
-- Guarantee: each reservation is resolved once. An overrun books only where
-- every limit of the unit takes it, else nothing moves and the refusal is
-- remembered and written to the ledger. After expiry the cost is always booked.
-- A limit whose hash is gone is skipped and its move marked; it is never made.
--
-- KEYS[1] reservation:{p} seg(execution)   KEYS[2] lapsing:{p}
-- KEYS[3] live:{p} seg(org) seg(holder)    KEYS[4] revoked:{p}
-- KEYS[5] epoch:{p}                        KEYS[6] outbox:{p}
-- KEYS[7..] limits, then slots
-- ARGV[1] execution  ARGV[2] org  ARGV[3] caller  ARGV[4] 1 for an operator
-- ARGV[5] key id     ARGV[6] fingerprint   ARGV[7] guessed holder
-- ARGV[8] guessed limits line   ARGV[9] guessed slots line
-- ARGV[10] actual "unit=n unit=n", or "-" ARGV[11] status
-- ARGV[12] dispatched true, false or ''   ARGV[13] final 1 or 0
-- ARGV[14] request, for the entry         ARGV[15] number of limits; then per limit its unit
--
-- Outcomes, first that holds: unavailable | absent | corrupt | known, record
-- (resolved, or this key was seen) | keys, record | unit_unknown, unit |
-- attempts | overrun, record | settled, record | late_settled, record
local record_key, lapsing_key, live_key, revoked_key, epoch_key, outbox_key = unpack(KEYS, 1, 6)
local execution, org, caller, operator, key_id, fingerprint = unpack(ARGV, 1, 6)
local guess = {holder = ARGV[7], limits = ARGV[8], slots = ARGV[9]}
local actual, status, dispatched, final, request = unpack(ARGV, 10, 14)
local limit_count = tonumber(ARGV[15])
local limit_units = {unpack(ARGV, 16, 15 + limit_count)}
local limit_keys = {unpack(KEYS, 7, 6 + limit_count)}
local slot_keys = {unpack(KEYS, 7 + limit_count)}

-- now: Redis's clock, read once per script. Returns milliseconds as a number,
-- and seconds and microseconds as Redis's own digits, joined by a space. A
-- time in milliseconds has 13 digits, which ".." still prints exactly.
local function now()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1, t[1] .. ' ' .. t[2]
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
-- format_amounts: a map of unit to digits as "unit=n unit=n" in a given order.
local function format_amounts(by_unit, units)
  local out = {}
  for i, unit in ipairs(units) do
    out[i] = unit .. '=' .. by_unit[unit]
  end
  return table.concat(out, ' ')
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
-- booked_amounts: what a settle books for each reserved unit, by the table of
-- the contract: the actual where given; nothing where a failed call was never
-- dispatched; else the whole reservation, its cost unknown. An actual that is
-- not final never books less than was reserved. Returns the unknown unit of an
-- actual as third value.
local function booked_amounts(reserved, units, actual, status, dispatched, final)
  local given, booked, unknown = {}, {}, false
  if actual ~= '-' then
    given = parse_amounts(actual)
    for unit in pairs(given) do
      if not reserved[unit] then
        return nil, false, unit
      end
    end
  end
  for _, unit in ipairs(units) do
    local n = given[unit]
    if not n then
      local nothing = actual == '-' and status == 'failure' and dispatched == 'false'
      n = nothing and '0' or reserved[unit]
      unknown = unknown or not nothing
    end
    if final == '0' and actual ~= '-' then
      unknown = true
      if tonumber(n) < tonumber(reserved[unit]) then
        n = reserved[unit]
      end
    end
    booked[unit] = n
  end
  return booked, unknown
end
-- charged_at_expiry: what the expiry of a refused overrun has already charged,
-- as a map of unit to digits, or nil. The resolution line of an expired record
-- is: expire, tab, 1 where the amount is withheld, tab, amounts charged.
local function charged_at_expiry(r)
  local charged = string.match(r.resolution, '^expire\t[01]\t(.+)$')
  return charged and parse_amounts(charged) or nil
end
-- overrun_fits: whether every limit of an overrun unit takes what was booked:
-- within its epsilon and its cap, or because it charges overruns. A missing
-- limit has nothing to say.
local function overrun_fits(rows, limit_units, reserved, booked)
  for i, row in ipairs(rows) do
    local unit = limit_units[i]
    local over = tonumber(booked[unit]) - tonumber(reserved[unit])
    if over > 0 and not row.missing and row[7] ~= 'charge' then
      local used = tonumber(row[3]) + tonumber(row[4]) + tonumber(row[5]) + over
      if not (over <= tonumber(row[6])) or not (used <= tonumber(row[1]) + tonumber(row[2])) then
        return false
      end
    end
  end
  return true
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
-- finish: writes a record that is resolved, ends its place among the live and
-- its slots, begins or ends its late window, and appends the entry, all of one
-- transition.
local function finish(keys, r, entry)
  local text = format_record(r)
  redis.call('SET', keys.record, text, 'PX', entry.keep_ms)
  if entry.next_deadline then
    redis.call('ZADD', keys.lapsing, entry.next_deadline, entry.execution)
  else
    redis.call('ZREM', keys.lapsing, entry.execution)
  end
  redis.call('ZREM', keys.live, entry.execution)
  for _, slot in ipairs(keys.slots) do
    redis.call('ZREM', slot, entry.execution)
  end
  redis.call('XADD', keys.outbox, '*', 'e', '1 ' .. entry.kind .. ' ' .. entry.at .. ' ' .. entry.execution .. '\n' ..
    table.concat(entry.moves, ' ') .. '\n' .. entry.detail .. '\n' .. text)
  return text
end

if redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'unavailable', 'fenced'}
end
local r, outcome = find_record(record_key, epoch_key,
  {org = org, caller = caller, operator = operator, key_id = key_id}, guess)
if not r then
  return outcome
elseif r.state == 'tombstone' then
  return {'known', format_record(r)}
end
local reserved, units = parse_amounts(r.amounts)
local booked, unknown, stranger = booked_amounts(reserved, units, actual, status, dispatched, final)
if stranger then
  return {'unit_unknown', stranger}
end
local rows, missing = read_limits(limit_keys, epoch_key)
if not rows then
  return {'unavailable', 'emptied'}
end
local refused = r.state == 'held' and not overrun_fits(rows, limit_units, reserved, booked)
local _, attempt_count = string.gsub(r.attempts, '\n', '')
if refused and attempt_count >= 16 then
  return {'attempts'}
end
local now_ms, now_text = now()
local booked_text = format_amounts(booked, units)

-- writes
if refused then
  local epsilon = {}
  for i, row in ipairs(rows) do
    epsilon[limit_units[i]] = epsilon[limit_units[i]] or row[6] or '0'
  end
  r.attempts = r.attempts .. table.concat({key_id, fingerprint, 'settle', booked_text, r.amounts,
    format_amounts(epsilon, units)}, '\t') .. '\n'
  local text = format_record(r)
  redis.call('SET', record_key, text, 'KEEPTTL')
  redis.call('XADD', outbox_key, '*', 'e',
    '1 overrun_refused ' .. now_text .. ' ' .. execution .. '\n\n' .. request .. '\n' .. text)
  return {'overrun', text}
end
local earlier, moves = charged_at_expiry(r), {}
local late = r.state ~= 'held'
for i, key in ipairs(limit_keys) do
  local unit, gone = limit_units[i], rows[i].missing
  local terms = gone and '!' or ''
  if not late then
    terms = terms .. move(key, gone, 'h', 'held', '-', reserved[unit])
  elseif r.state == 'expired' and not earlier then
    terms = terms .. move(key, gone, 'w', 'withheld', '-', reserved[unit])
  end
  terms = terms .. move(key, gone, 's', 'spent', '+', booked[unit])
  if earlier then
    terms = terms .. move(key, gone, 's', 'spent', '-', earlier[unit])
  end
  moves[i] = terms
end
local before = late and (r.state == 'expired' and not earlier and 'expired' or earlier and 'charged' or 'lapsed') or 'held'
r.resolution = table.concat({'settle', key_id, fingerprint, before, booked_text, earlier and format_amounts(earlier, units) or '-',
  unknown and '1' or '0', missing and '1' or '0'}, '\t')
r.state, r.till = late and 'late_settled' or 'settled', now_ms .. ''
return {r.state, finish(
  {record = record_key, lapsing = lapsing_key, live = live_key, outbox = outbox_key, slots = slot_keys}, r,
  {kind = r.state, at = now_text, execution = execution, moves = moves, detail = request, keep_ms = 86400000})}
