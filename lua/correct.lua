#!lua
-- correct: moves spent by what an operator says of an entry that stands.
--
-- Guarantee: once for each key; the entry that is corrected stays, and the new
-- one names it. No limit's spent falls below 0 or passes 2^53-1; else nothing
-- moves. A limit whose hash is gone gets a move marked missing. A dispute has
-- no limits and moves nothing.
--
-- KEYS[1] reservation:{p} seg(execution)   KEYS[2] revoked:{p}
-- KEYS[3] epoch:{p}   KEYS[4] outbox:{p}   KEYS[5..] limits
-- ARGV[1] execution   ARGV[2] record after its head line (README.md)
-- ARGV[3] kind of the entry   ARGV[4] members of the entry's detail
-- then per limit: sign, digits
--
-- Outcomes, first that holds: unavailable | known, record | invalid |
-- range, index of the limit, spent | corrected, moves
local record_key, revoked_key, epoch_key, outbox_key = unpack(KEYS, 1, 4)
local execution, body, kind, detail = unpack(ARGV, 1, 4)
local limit_keys = {unpack(KEYS, 5)}
local signs, digits = {}, {}
for i = 1, #limit_keys do
  signs[i], digits[i] = unpack(ARGV, 3 + 2 * i, 4 + 2 * i)
end

--include now
--include is_amount
--include move

if redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'unavailable', 'fenced'}
end
local known = redis.call('GET', record_key)
if known then
  return {'known', known}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local lost = {}
for i, key in ipairs(limit_keys) do
  if not is_amount(digits[i]) or signs[i] ~= '+' and signs[i] ~= '-' then
    return {'invalid'}
  end
  local spent = redis.call('HGET', key, 'spent')
  lost[i] = not spent
  if spent then
    local after = tonumber(spent) + tonumber(signs[i] .. digits[i])
    if not (after >= 0) or not (after <= 9007199254740991) then
      return {'range', tostring(i), spent}
    end
  end
end
local now_ms, now_text = now()

-- writes
local moves = {}
for i, key in ipairs(limit_keys) do
  moves[i] = (lost[i] and '!' or '') .. move(key, lost[i], 's', 'spent', signs[i], digits[i])
end
local told = table.concat(moves, ' ')
local record = '1 charged ' .. now_text .. ' ' .. now_ms .. ' ' .. now_ms .. '\n' .. body ..
  'correct\t' .. kind .. '\t' .. told .. '\n'
redis.call('SET', record_key, record, 'PX', 86400000)
redis.call('XADD', outbox_key, '*', 'e',
  '1 ' .. kind .. ' ' .. now_text .. ' ' .. execution .. '\n' .. told .. '\n' .. detail .. '\n' .. record)
return {'corrected', told}
