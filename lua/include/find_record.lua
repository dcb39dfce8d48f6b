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
